"""What the site of the documentation (mkdocs.yml, ``make site``) needs beside MkDocs: see ``hooks``."""
