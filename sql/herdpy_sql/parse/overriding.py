"""Clauses that sqlglot does not read, taken out of the tokens: OVERRIDING of INSERT, ON COMMIT of CREATE."""

from __future__ import annotations

from sqlglot.tokenizer_core import Token

_WORDS = ("SYSTEM", "USER")


def lift_overriding(tokens: list[Token]) -> tuple[list[Token], str]:
    """The tokens without it, and which of the two words it has; "" when it is not there."""
    for at in range(len(tokens) - 2):
        if (
            tokens[at].text.upper() == "OVERRIDING"
            and tokens[at + 1].text.upper() in _WORDS
            and tokens[at + 2].text.upper() == "VALUE"
        ):
            return tokens[:at] + tokens[at + 3 :], tokens[at + 1].text.upper()
    return tokens, ""


def lift_on_commit(tokens: list[Token]) -> tuple[list[Token], str]:
    """The tokens without ON COMMIT of a temporary table, and its next word: DROP, DELETE, PRESERVE or ""."""
    for at in range(len(tokens) - 2):
        words = [token.text.upper() for token in tokens[at : at + 4]]
        if words[:3] == ["ON", "COMMIT", "DROP"]:
            return tokens[:at] + tokens[at + 3 :], "DROP"
        if words[:2] == ["ON", "COMMIT"] and words[2:] in (["DELETE", "ROWS"], ["PRESERVE", "ROWS"]):
            return tokens[:at] + tokens[at + 4 :], words[2]
    return tokens, ""
