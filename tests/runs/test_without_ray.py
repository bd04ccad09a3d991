"""Where Ray is not installed: what needs it is refused before anything is on disk."""

from pathlib import Path
from typing import Any

import pytest

from fedballot import sim
from fedballot.core.errors import SettingsError
from fedballot.core.progress import Silent
from fedballot.settings.voting import PateSettings
from tests.conftest import small_settings


@pytest.mark.parametrize("change", [{"engine": "ray"}, {"ray_address": "127.0.0.1:1"}])
def test_what_needs_ray_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]) -> None:
    monkeypatch.setattr(sim, "has_ray", lambda: False)
    settings = small_settings(PateSettings, {"epsilon": 40, **change})
    with pytest.raises(SettingsError, match=r"needs Ray.*fedballot\[ray\]"):
        sim.simulate("pate-fl", settings, tmp_path / "run", resume=False, progress=Silent())
    assert not (tmp_path / "run").exists()
