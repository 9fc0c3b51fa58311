"""The images, built once for all tests that run them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.images.engine import Engine, build_images, engine


@pytest.fixture(scope="package")
def images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """An engine that has the images of docker/."""
    with engine() as made:
        build_images(made, tmp_path_factory.mktemp("contexts"))
        yield made
