"""Scripts are read as psql reads them."""

from __future__ import annotations

import pytest

from tests.suites.psql_scripts import Command, Script, Statement, split_arguments

_BODY = (
    "CREATE OR REPLACE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; SELECT 2; END"
)


def pieces(text: str) -> list[str]:
    """The pieces of a script, to be compared."""
    script, found = Script(text), []
    while (piece := script.next()) is not None:
        if isinstance(piece, Statement):
            found.append(piece.text({"t": "it's"}) + (f" \\{piece.sent_by}" if piece.sent_by else ""))
        else:
            found.append(f"\\{piece.name} {piece.arguments}")
    return found


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("SELECT 1;SELECT 2", ["SELECT 1", "SELECT 2"]),
        ("-- only a comment\n/* a /* nested; */ one */ SELECT 1;", ["SELECT 1"]),
        (
            "SELECT ';', \"a;b\", E'\\';', $$;$$, $x$;$$;$x$;",
            ["SELECT ';', \"a;b\", E'\\';', $$;$$, $x$;$$;$x$"],
        ),
        (
            "CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2);",
            ["CREATE RULE r AS ON INSERT TO t DO (SELECT 1; SELECT 2)"],
        ),
        ("SELECT 1\\; SELECT 2;", ["SELECT 1; SELECT 2"]),
        ("SELECT 1 AS a \\gset p_\nSELECT 2;", ["SELECT 1 AS a  \\gset", "SELECT 2"]),
        ("\\set x 1 2\n\\pset null '(null)'\nSELECT 1;", ["\\set x 1 2", "\\pset null '(null)'", "SELECT 1"]),
        ("\\if :{?t} \\\\ SELECT 1; \\endif", ["\\if :{?t}", "SELECT 1", "\\endif "]),
        (
            "SELECT :'t', :\"t\", a::text, b[1:2], :{?t}, ':t';",
            ["SELECT 'it''s', \"it's\", a::text, b[1:2], TRUE, ':t'"],
        ),
        (f"{_BODY}; SELECT 3;", [_BODY, "SELECT 3"]),
        (
            "BEGIN; CREATE PROCEDURE p() LANGUAGE sql AS 'SELECT 1'; END;",
            ["BEGIN", "CREATE PROCEDURE p() LANGUAGE sql AS 'SELECT 1'", "END"],
        ),
        ("SELECT 1 \\r\nSELECT 2;", ["\\r ", "SELECT 2"]),
    ],
)
def test_statements_and_commands(text, wanted):
    assert pieces(text) == wanted


def test_data_of_copy_is_taken_only_when_it_is_asked_for():
    script = Script("COPY t FROM stdin;\n1\ta;b\n2\t'\n\\.\nSELECT 1;\n")
    first = script.next()
    assert isinstance(first, Statement)
    assert script.copy_data() == "1\ta;b\n2\t'\n"
    second = script.next()
    assert isinstance(second, Statement)
    assert (second.text({}), second.line) == ("SELECT 1", 5)
    assert script.next() is None


def test_backslashes_in_quotes_without_standard_conforming_strings():
    text = r"SELECT 'a\';'; SELECT 2;"
    script = Script(text)
    script.backslashes = True
    piece = script.next()
    assert isinstance(piece, Statement)
    assert piece.text({}) == r"SELECT 'a\';'"
    assert pieces(r"SELECT 'a\'; SELECT 2;") == [r"SELECT 'a\'", "SELECT 2"]


def test_arguments_of_commands():
    assert split_arguments("filename :dir '/data/onek.data'", {"dir": "/x"}) == [
        "filename",
        "/x",
        "/data/onek.data",
    ]
    assert split_arguments("a :dir'/y' ':dir'", {"dir": "/x"}) == ["a", "/x/y", ":dir"]
    assert isinstance(Script("\\q\n").next(), Command)
