"""Exports as directories of files: manifests, generations, merges; and the same as tables of Delta.

From the bottom:

places       where they lie: local files, or whatever Hadoop's file systems reach
manifest     what one generation is: its position, its schema, its files, its fingerprint
generations  the manifests of one directory; publishing the next one, once
fingerprint  rows as a number that does not depend on their order
changeset    the net effect of a stretch of the change feed
rewriting    the next generation's files: those that hold changed rows, written anew
"""
