"""Rights: who owns what, what was granted to whom, and what a statement needs. Pure, beside ``plan``.

    privileges   PostgreSQL's privileges by their letters, and which of them each kind of thing has
    acl          grants of one thing as an immutable value: granted, revoked, asked, written as aclitem
    held         the rights to a thing as the catalog has them, its owner, and what is usual where it has none
    subjects     what GRANT names, found in the catalog
    needs        a statement and a catalog to what its role must be allowed

Roles are keys here (``SYSTEM`` for the superuser that is there from the start, "" for PUBLIC): who they are
and whose members is the server's business, which asks and answers by keys.
"""
