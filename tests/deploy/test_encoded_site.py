"""A site whose records go through a frozen encoder: its own copy, held to the server's before anything is charged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed: fedballot[torch]")

from fedballot.core.errors import SettingsError
from fedballot.core.setting import build
from fedballot.datasets.encoders.sources import make_encoder
from fedballot.datasets.fingerprint import fingerprint
from fedballot.datasets.own import SITES
from fedballot.deploy.check import check_site
from fedballot.deploy.client import SiteClient
from fedballot.deploy.site_file import read_site
from fedballot.deploy.template import init_site
from fedballot.methods.registry import get_method
from fedballot.runs.engine import federated_data
from fedballot.settings.voting import PateSettings
from tests.deploy.harness import edit
from tests.packages import install

NET = """
import torch

def net(width=6):
    return torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(2), torch.nn.Flatten(), torch.nn.Linear(12, width))
"""
NAME = "encoder_of_site:net"


def ask(site: Path, request: str, **changes: Any) -> Any:
    folder = site.parent.parent
    values: dict[str, Any] = {
        "dataset": SITES, "public_dataset": str(folder / "public.npz"), "clients": 2, "public_size": 30,
        "test_size": 30, "vote_fraction": 1, "epsilon": 40, "abstain": False, "encoder": NAME,
        "server_model": "logistic-regression", "client_models": "logistic-regression",
    }  # fmt: skip
    settings = build(PateSettings, values | changes)
    config = {"request": request, "round": 1, "fingerprint": federated_data(settings).public_fingerprint}
    return SiteClient(site, get_method("pate-fl"), settings).fit([np.arange(30, dtype=np.int32)], config)[2]


def test_a_site_has_its_own_encoder_which_must_be_the_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path / "package", {"encoder_of_site.py": NET}, patch=monkeypatch)
    make_encoder.cache_clear()
    rng = np.random.default_rng(0)
    y = np.arange(100) % 2
    x = (rng.integers(0, 100, (100, 6, 6)) + 120 * y[:, None, None]).astype(np.uint8)
    np.savez(tmp_path / "public.npz", x=x[:60], y=y[:60])
    init_site(tmp_path / "site", number=0, sites=2, server="localhost:1")
    np.savez(tmp_path / "site" / "own.npz", x=x[60:], y=y[60:])
    site = tmp_path / "site" / "site.toml"
    edit(site, model="logistic-regression", private="own.npz", public="../public.npz", largest_epsilon=50.0,
         epsilon=100.0, secure_aggregation=False, public_fingerprint=fingerprint(x[:60]))  # fmt: skip
    without = ask(site, "r/1")
    assert without["refused"] == "policy" and "but this site's file names none" in without["detail"]
    plain = site.read_text()

    def say(name: str) -> None:
        start = next(line for line in plain.splitlines() if line.startswith("# encoder = "))
        site.write_text(plain.replace(start, f'encoder = "{name}"'))

    say(NAME)
    assert "40 records (0: 20, 1: 20), as 6 features each by encoder=" in {
        one.what: one.words for one in check_site(site)
    }["own data"].replace(f"encoder={NAME}", "encoder=")
    assert ask(site, "r/2")["refused"] == ""
    assert ask(site, "r/3", encoder="")["refused"] == "policy"
    other = ask(site, "r/4", encoder=f"{NAME}(width=5)")
    assert other["refused"] == "fingerprint" and "covers the encoder" in other["detail"]
    say("minlm")
    with pytest.raises(SettingsError, match=r"data\.encoder = 'minlm'; expected minilm, "):
        read_site(site)
