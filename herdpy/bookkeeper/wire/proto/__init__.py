"""The messages of BookKeeper's protocol and metadata, as protobuf classes.

The bottom of ``wire``: ``*_pb2.py`` and their stubs are generated from the ``.proto`` files beside them by
``python tools/generate_proto.py``. Only ``wire`` and ``metadata`` use them.
"""
