"""Has a cluster learn at once that the process of one of its servers has ended.

attestation  what is written to ZooKeeper, and writing it
__main__     the process that waits for the server's end
process      that process as its server sees it
former       the session of the node's former process, in a file
supervision  all of it, for one node
"""
