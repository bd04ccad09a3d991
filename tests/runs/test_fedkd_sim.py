"""Both kinds of FedKD in worker processes: bytes as sent, and a run that ended is not run again."""

from __future__ import annotations

import pytest

from fedballot.core.files import read_arrays
from fedballot.core.progress import Silent
from fedballot.settings.fedkd import FedkdSettings
from fedballot.sim import simulate
from tests.conftest import small_settings

pytestmark = pytest.mark.slow


def test_one_shot_in_a_few_kilobytes_and_its_noise_is_kept_over_a_resumption(tmp_path):
    settings = small_settings(FedkdSettings, {"levels": 16, "logit_bound": 10, "gamma": 4})
    first = simulate("fedkd", settings, tmp_path, resume=False, progress=Silent())
    assert first["status"] == "done"
    assert first["metrics"]["server_accuracy"] > 0.7  # .85 to .9 seen
    sent = first["communication"]["bytes_up"]
    # less than half a byte per logit; 4 bytes per class count, 128 bytes of header per array
    assert 8 * (4 * 10 + 2 * 128) < sent < 8 * (300 * 10 // 2 + 4 * 10 + 2 * 128)
    assert first["metrics"]["float64_bytes_up"] == 8 * 300 * 10 * 8
    kept = read_arrays(tmp_path / "release.npz")["consensus"]
    (tmp_path / "release.npz").unlink()
    again = simulate("fedkd", settings, tmp_path, resume=True, progress=Silent())
    assert again["metrics"] == first["metrics"]
    assert (read_arrays(tmp_path / "release.npz")["consensus"] == kept).all()
