"""What the files of this folder share."""

from collections.abc import Iterator

import pytest

from tests.privacy.mutants.runner import Workers


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    """Each file's own."""
    with Workers() as made:
        yield made
