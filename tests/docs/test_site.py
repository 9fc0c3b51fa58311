"""The site of the documentation: pages as GitHub reads them, their links, and what a strict build refuses."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main
import yaml

from herdpy.cli.app import app
from herdpy_server.config.fields import all_settings
from tests.docs.test_links import anchors
from tools.site import generated
from tools.site.links import in_repository, rewritten
from tools.site.markdown import anchor, for_python_markdown

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("Text\n- one\n- two\n", "Text\n\n- one\n- two\n"),
        (
            "- one\n  more\n  - inner\n    more\n- two\n",
            "- one\n    more\n    - inner\n        more\n- two\n",
        ),
        (
            "1. one\n\n   ```sh\n   ls\n\n   - no item\n   ```\n\nText\n",
            "1. one\n\n    ```sh\n    ls\n\n    - no item\n    ```\n\nText\n",
        ),
        ("Text\n```\n- a\n  - b\n```\n", "Text\n```\n- a\n  - b\n```\n"),
        ("<!-- not run: why -->\n```sh\nls\n```\n", "```sh\nls\n```\n"),
        ("- one\nlazy\n\nText\n", "- one\n    lazy\n\nText\n"),
    ],
)
def test_lists_are_written_as_python_markdown_reads_them(page: str, expected: str) -> None:
    assert for_python_markdown(page) == expected


def test_anchors_are_those_of_github(tmp_path: Path) -> None:
    headings = ["`a_b`, and C", "What is (not) there?", "Two  blanks", "1.5 ways — and more"]
    page = tmp_path / "page.md"
    page.write_text("".join(f"# {one}\n" for one in headings), encoding="utf-8")
    assert {anchor(one) for one in headings} == anchors(page)


def test_links_lead_to_pages_and_else_to_the_repository() -> None:
    places = {"docs/b.md": "b.md", "log/DESIGN.md": "design/log.md", "docs/how/README.md": "how/README.md"}
    text = (
        "[b](b.md#x) [`log`](../log/DESIGN.md) [how](how) [`code`](../Makefile) [x](#x) [y](https://y.org/)\n"
        "`[no](../Makefile)`\n```\n[no](../Makefile)\n```\n![p](p.svg)"
    )
    got = rewritten(text, "docs/a.md", "sub/a.md", places | {"docs/p.svg": "p.svg"}, lambda file: f"R/{file}")
    assert got == (
        "[b](../b.md#x) [`log`](../design/log.md) [how](../how/README.md) [`code`](R/Makefile) [x](#x) "
        "[y](https://y.org/)\n`[no](../Makefile)`\n```\n[no](../Makefile)\n```\n![p](../p.svg)"
    )


def test_a_link_to_a_file_that_is_not_there_is_an_error() -> None:
    link = in_repository(ROOT, "https://host/us")
    assert link("Makefile") == "https://host/us/blob/main/Makefile"
    assert link("docs") == "https://host/us/tree/main/docs"
    with pytest.raises(ValueError, match=r"^nothing\.md is not there$"):
        link("nothing.md")


def test_every_setting_and_command_is_on_its_page() -> None:
    settings = generated.configuration()
    assert [key for key in all_settings() if f"\n### {key}\n" not in settings] == []
    commands = generated.commands()
    group = typer.main.get_command(app)
    assert [name for name in getattr(group, "commands", {}) if f"\n## herdpy {name}" not in commands] == []
    assert "| `--data`" in commands


@pytest.mark.parametrize("name", generated.INTERFACES)
def test_the_modules_of_interfaces_say_what_is_public(name: str) -> None:
    for module in generated.INTERFACES[name][2]:
        assert importlib.import_module(module).__all__


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ("", None),
        ("[a](other.md)", "'other.md'"),
        ("[a](index.md#nowhere)", "no such anchor"),
        ("[a](/a.md)", "absolute"),
        ("lost.md", "not included in the"),
    ],
)
def test_a_strict_build_refuses(tmp_path: Path, wrong: str, complaint: str | None) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "index.md").write_text(f"# Head\n\n[ok](#head) {wrong}\n", encoding="utf-8")
    if wrong == "lost.md":
        (docs / wrong).write_text("# Lost\n", encoding="utf-8")
    of_site = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    config = {
        "site_name": "x",
        "theme": {"name": "mkdocs"},
        "plugins": [],
        "nav": ["index.md"],
        "validation": of_site["validation"],
    }
    (tmp_path / "mkdocs.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict"],
        cwd=tmp_path,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode == 0) is (complaint is None), done.stderr
    assert complaint is None or complaint in done.stderr
