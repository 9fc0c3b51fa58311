"""Worker processes: what reads much, beside the process that serves. See DESIGN.md.

pool        who is asked: gives workers questions, and their answers to sessions
scheduler   spawns workers, assigns them, replaces them
process     one worker as its server sees it, and the link to it
exchange    one question under way: what came back, and how it ends
shipping    a snapshot's changes on their way to a worker, and what flushes moved meanwhile
messages    what is said, and how it travels
child       the other side: what a worker process does
"""
