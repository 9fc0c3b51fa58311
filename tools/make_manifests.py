"""Write what follows from conf/ and the chart: the chart's copies of configurations, and deploy/kubernetes/.

    python tools/make_manifests.py HELM

A chart reads only files of its own directory, so it has copies of conf/; plain manifests are the chart as
helm renders it with deploy/kubernetes/values.yaml, a file for each part.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CHART = ROOT / "deploy" / "helm" / "herdpy"
MANIFESTS = ROOT / "deploy" / "kubernetes"
COPIES = ("zookeeper.cfg", "bookkeeper.conf", "cluster.toml")
NAMESPACE = "herdpy"
_HEAD = "# Made by `make manifests`: change the chart, or values.yaml. See docs/kubernetes.md.\n"


def rendered(helm: str) -> str:
    """The chart as helm renders it for these manifests. CalledProcessError where it cannot."""
    values = MANIFESTS / "values.yaml"
    command = [helm, "template", "herdpy", str(CHART), "--namespace", NAMESPACE, "--values", str(values)]
    return subprocess.run([*command, "--skip-tests"], check=True, capture_output=True, text=True).stdout


def manifests(helm: str) -> dict[str, str]:
    """The manifests by their file names."""
    found: dict[str, list[str]] = {}
    for name, document in _documents(rendered(helm)):
        found.setdefault(name, []).append(document)
    return {name: _HEAD + "---\n" + "---\n".join(documents) for name, documents in sorted(found.items())}


def _documents(text: str) -> Iterator[tuple[str, str]]:
    """Each document with the name of its template."""
    for document in text.split("---\n# Source: ")[1:]:
        source, _, body = document.partition("\n")
        lines = [line.rstrip() for line in body.splitlines()]
        kept = "\n".join(line for line in lines if "managed-by" not in line).strip()
        if any(line and not line.startswith("#") for line in kept.splitlines()):
            yield Path(source).name, kept + "\n"


def main() -> None:
    """Write all of it."""
    (helm,) = sys.argv[1:]
    for name in COPIES:
        shutil.copyfile(ROOT / "conf" / name, CHART / "files" / name)
    made = manifests(helm)
    for path in MANIFESTS.glob("*.yaml"):
        if path.name not in {*made, "values.yaml", "namespace.yaml", "kustomization.yaml"}:
            path.unlink()
    for name, text in made.items():
        (MANIFESTS / name).write_text(text)


if __name__ == "__main__":
    main()
