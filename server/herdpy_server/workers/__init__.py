"""Worker processes: what reads much, beside the process that serves. See DESIGN.md.

pool        who is asked; starts workers, gives them questions, replaces them
process     one worker as its server sees it
exchange    one question under way: what came back, and how it ends
shipping    a snapshot's changes on their way to a worker; ``journal``: what flushes moved meanwhile
messages    what is said, and ``frames``, how
child       the other side: what a worker process does
"""
