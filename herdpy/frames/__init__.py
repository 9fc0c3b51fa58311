"""Data frames: what :mod:`herdpy.pandas` and :mod:`herdpy.polars` have in common.

Layer: on top of the driver, whose Arrow it uses; it knows no frame of any library.

    whatever names a database -> sources: a driver's connection -> answers: Arrow tables -> the frame
"""
