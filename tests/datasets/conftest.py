import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedballot.datasets.federation import build
from fedballot.datasets.sources import load


@pytest.fixture(autouse=True, scope="session")
def _session_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One fresh cache folder for all tests, so that none reads the user's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDBALLOT_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture
def fresh() -> Iterator[None]:
    """For tests that change the environment: nothing loaded before or kept after."""
    load.cache_clear()
    build.cache_clear()
    yield
    load.cache_clear()
    build.cache_clear()


@pytest.fixture
def data_dir() -> Path:
    folder = os.environ.get("FEDBALLOT_DATA")
    if not folder:
        pytest.skip("FEDBALLOT_DATA is not set: needs the full data files")
    return Path(folder)
