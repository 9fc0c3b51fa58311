"""MkDocs' events for this site: which files are pages, their nav, their links, and the diagrams.

Layer: between MkDocs (``hooks`` in mkdocs.yml) and the modules beside this one. MkDocs reads ``docs/``. The
pages of the root (CHANGELOG.md and others), the DESIGN.md of each component, and pages made of the programs
are added. Everything is read from the checkout, and nothing from the network.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pymdownx.superfences import fence_code_format

from tools.site import generated
from tools.site.links import in_repository, rewritten
from tools.site.markdown import anchor, for_python_markdown

ROOT = Path(__file__).parents[2]
#: Files of the root that are pages, and the list of all pages.
PROJECT = {
    "docs/README.md": "pages.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
    "CODE_OF_CONDUCT.md": "project/conduct.md",
}
PACKAGES = ("herdpy", "server", "sql", "spark_jobs", "orchestration")
_GENERATED = {
    "reference/configuration.md": generated.configuration,
    "reference/commands.md": generated.commands,
}
_SOURCE: dict[str, str] = {}  # the file of each page, by the page's place
_PLACE: dict[str, str] = {}  # the page of each file


def designs() -> dict[str, str]:
    """The DESIGN.md of each component, and its place in the site."""
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("DESIGN.md")):
            file = path.relative_to(ROOT)
            inner = [part for part in file.parent.parts if part != "spark_jobs" or len(file.parts) == 2]
            names = [part for number, part in enumerate(inner) if part not in ("server", "sql") or number]
            found[file.as_posix()] = f"design/{'.'.join(names)}.md"
    return found


def _title(text: str) -> str:
    heading = re.search(r"^# (.+)$", text, re.MULTILINE)
    return heading[1].replace("`", "") if heading else ""


def _number(path: Path) -> tuple[int, str]:
    number = re.match(r"\d+", path.name)
    return (int(number[0]) if number else 0, path.name)


def _spread(nav: list[Any]) -> Iterator[Any]:
    """The nav with the pages that ``directory/*.md``, ``design/*`` and ``reference/api/*`` stand for."""
    for entry in nav:
        if isinstance(entry, dict):
            ((title, inner),) = entry.items()
            yield {title: list(_spread(inner))} if isinstance(inner, list) else entry
        elif entry == "design/*":
            for file, place in designs().items():
                yield {place.removeprefix("design/").removesuffix(".md"): place} if file else entry
        elif entry == "reference/api/*":
            yield from (
                {title: f"reference/api/{name}.md"} for name, (title, *_) in generated.INTERFACES.items()
            )
        elif entry.endswith("/*.md"):
            pages = sorted((ROOT / "docs").glob(entry), key=_number)
            yield from (one.relative_to(ROOT / "docs").as_posix() for one in pages if one.name != "README.md")
        else:
            yield entry


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The nav in full, and what YAML cannot name: the functions of Markdown's extensions."""
    config.nav = list(_spread(config.nav or []))
    config.mdx_configs["toc"]["slugify"] = anchor
    fence = {"name": "mermaid", "class": "mermaid", "format": fence_code_format}
    config.mdx_configs["pymdownx.superfences"] = {"custom_fences": [fence]}
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not in docs/."""
    _SOURCE.clear()
    _PLACE.clear()
    for file in files:
        _SOURCE[file.src_uri] = f"docs/{file.src_uri}"
    for source, place in {**PROJECT, **designs()}.items():
        files.append(File.generated(config, place, content=(ROOT / source).read_text(encoding="utf-8")))
        _SOURCE[place] = source
    for place, make in _GENERATED.items():
        files.append(File.generated(config, place, content=make()))
    for name in generated.INTERFACES:
        files.append(File.generated(config, f"reference/api/{name}.md", content=generated.interface(name)))
    _PLACE.update({source: place for place, source in _SOURCE.items()})
    _PLACE["README.md"] = "index.md"
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """A page's links and lists, as the site needs them."""
    place = page.file.src_uri
    if place == "index.md":
        page.meta["hide"] = ["navigation"]  # the front page has the tabs
    if place not in _SOURCE:  # made for the site
        return markdown
    repository = in_repository(ROOT, str(config.repo_url).rstrip("/"))
    try:
        text = rewritten(markdown, _SOURCE[place], place, _PLACE, repository)
    except ValueError as error:
        raise PluginError(f"{_SOURCE[place]}: a link is broken: {error}") from error
    return for_python_markdown(text)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """The script of diagrams, on the pages that have one: the theme would load it from elsewhere."""
    if 'class="mermaid"' not in output:
        return output
    up = "../" * page.url.count("/")
    return output.replace("</body>", f'<script src="{up}assets/mermaid.tiny.js"></script></body>')
