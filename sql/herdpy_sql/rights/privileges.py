"""PostgreSQL's privileges by their letters, and which of them each kind of thing has. Source: manual, 5.7."""

from __future__ import annotations

from herdpy_sql.errors import SqlError

LETTERS = {
    "INSERT": "a",
    "SELECT": "r",
    "UPDATE": "w",
    "DELETE": "d",
    "TRUNCATE": "D",
    "REFERENCES": "x",
    "TRIGGER": "t",
    "EXECUTE": "X",
    "USAGE": "U",
    "CREATE": "C",
    "TEMPORARY": "T",
    "TEMP": "T",
    "CONNECT": "c",
    "SET": "s",
    "ALTER SYSTEM": "A",
}
"""By name, in the order in which they are written."""

NAMES = {letter: name for name, letter in LETTERS.items() if name != "TEMP"}

OF_KIND = {
    "table": "arwdDxt",
    "view": "arwdDxt",
    "sequence": "rwU",
    "schema": "UC",
    "database": "CTc",
    "type": "U",
    "function": "X",
}
"""The letters of all that can be granted on a kind of thing."""

TO_PUBLIC = {"database": "Tc", "type": "U", "function": "X"}
"""What everybody has where nothing was said."""

_ORDER = "".join(dict.fromkeys(LETTERS.values()))
_SPOKEN = {"view": "table"}


def ordered(letters: str) -> str:
    """Each letter once, in PostgreSQL's order."""
    return "".join(letter for letter in _ORDER if letter in letters)


def letters_of(words: tuple[str, ...], kind: str) -> str:
    """The letters of privileges by name, all of them for none.

    Raises:
        SqlError: 0LP01 for a privilege that a ``kind`` does not have, 42601 for what is none.
    """
    if not words:
        return OF_KIND[kind]
    found = ""
    for word in words:
        letter = LETTERS.get(word)
        if letter is None:
            raise SqlError("42601", f'unrecognized privilege type "{word.lower()}"')
        if letter not in OF_KIND[kind]:
            named = NAMES[letter]
            raise SqlError("0LP01", f"invalid privilege type {named} for {_SPOKEN.get(kind, kind)}")
        found += letter
    return ordered(found)
