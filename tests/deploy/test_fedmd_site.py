"""FedMD-NFDP and FedMD-LDP at a site: the sample and the noisy releases stand in the site's own ledger."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedballot.clients.fedmd import consensus_codec
from fedballot.core.setting import build
from fedballot.datasets.own import SITES
from fedballot.deploy.client import SiteClient
from fedballot.deploy.template import init_site
from fedballot.methods.registry import get_method
from fedballot.privacy.ledger.ledger import SAMPLE, Ledger
from fedballot.runs.engine import federated_data
from fedballot.settings.fedmd import FedmdSettings, LdpSettings, NfdpSettings
from tests.conftest import fitting
from tests.deploy.harness import edit, write_data


def site_for(tmp_path: Path, **changes: Any) -> Path:
    print_ = write_data(tmp_path)
    init_site(tmp_path / "site", number=1, sites=3, server="localhost:1")
    path = tmp_path / "site" / "site.toml"
    places = {"private": str(tmp_path / "own1.npz"), "public": str(tmp_path / "public.npz")}
    known = {"model": "logistic-regression", "public_fingerprint": print_, "largest_epsilon": 200.0, "epsilon": 200.0}
    edit(path, **places, **known, **changes)
    return path


def settings(kind: type[FedmdSettings], site: Path, **changes: Any) -> Any:
    chosen = {
        "dataset": SITES,
        "public_dataset": str(site.parents[1] / "public.npz"),
        "clients": 3,
        "public_size": 200,
        "test_size": 100,
        "queries": 50,
        "rounds": 2,
        "pretrain_epochs": 0,
        "client_models": "mlp",
        "share": "softmax",
        **changes,
    }
    return build(kind, fitting(kind, chosen))


def ask(site: Path, asked: Any, method: str, number: int, run: str = "r") -> Any:
    config = {"request": f"{run}/{number}", "round": number, "fingerprint": federated_data(asked).public_fingerprint}
    arrays = [np.arange(50, dtype=np.int32)]
    if number > 1:
        arrays += [np.arange(50, 100, dtype=np.int32), *consensus_codec(asked, (50, 10)).pack(np.full((50, 10), 0.1))]
    found, _, metrics = SiteClient(site, get_method(method), asked).fit(arrays, config)
    return found, metrics


def test_a_site_draws_one_sample_for_all_rounds_restarts_and_runs(tmp_path: Path) -> None:
    rules = {"methods": ["fedmd-nfdp"], "unit": "record", "smallest_epsilon": 0.0, "delta": 0.5}
    site = site_for(tmp_path, **rules)
    asked = settings(NfdpSettings, site, k=20, min_size=40)
    answers = [ask(site, asked, "fedmd-nfdp", number) for number in (1, 2, 2, 3)]
    assert [metrics["refused"] for _, metrics in answers] == [""] * 4
    assert answers[1][0][0].tobytes() == answers[2][0][0].tobytes()
    ledger = Ledger(site.parent / "ledger")
    version = ledger.version()
    assert version is not None
    drawn = ledger.stored(f"{SAMPLE} {version.fingerprint}")
    assert drawn is not None and len(drawn["sample"]) == 20
    assert ask(site, asked, "fedmd-nfdp", 1, run="further")[1]["refused"] == ""
    assert [line["kind"] for line in ledger.lines()] == ["open", "data", "charge", "release"]


def test_a_site_whose_delta_is_smaller_than_the_sample_s_refuses(tmp_path: Path) -> None:
    site = site_for(tmp_path, methods=["fedmd-nfdp"], unit="record", smallest_epsilon=0.0, delta=1e-3)
    arrays, metrics = ask(site, settings(NfdpSettings, site, k=20), "fedmd-nfdp", 1)
    assert arrays == [] and metrics["refused"] in ("policy", "budget")


def test_a_sample_of_records_is_not_charged_to_a_ledger_about_the_whole_site(tmp_path: Path) -> None:
    site = site_for(tmp_path, methods=["fedmd-nfdp"], unit="client", smallest_epsilon=0.0, delta=0.5)
    arrays, metrics = ask(site, settings(NfdpSettings, site, k=20, min_size=40), "fedmd-nfdp", 1)
    assert arrays == [] and metrics["refused"] == "policy" and "clients under zero-out" in metrics["detail"]
    assert Ledger(site.parent / "ledger").costs() == []


def test_a_site_charges_every_round_of_noisy_predictions(tmp_path: Path) -> None:
    site = site_for(tmp_path, methods=["fedmd-ldp"])
    asked = settings(LdpSettings, site, epsilon=150, delta=1e-3)
    answers = [ask(site, asked, "fedmd-ldp", number) for number in (1, 2, 3)]
    assert [metrics["refused"] for _, metrics in answers] == [""] * 3
    ledger = Ledger(site.parent / "ledger")
    assert [line["kind"] for line in ledger.lines()].count("charge") == 3
    assert ledger.spent() == pytest.approx(150, rel=1e-3)
    further = [ask(site, asked, "fedmd-ldp", number, run="further")[1]["refused"] for number in (1, 2)]
    assert further == ["", "budget"]  # 192 of 200 are spent then


def test_predictions_that_nothing_protects_stay_at_the_site(tmp_path: Path) -> None:
    site = site_for(tmp_path, methods=["fedmd"])
    arrays, metrics = ask(site, settings(FedmdSettings, site), "fedmd", 1)
    assert arrays == [] and metrics["refused"] == "policy" and "nothing uncharged" in metrics["detail"]
    assert Ledger(site.parent / "ledger").costs() == []


def test_training_on_a_sample_ends_at_the_site_s_limit_too(tmp_path: Path) -> None:
    rules = {"methods": ["fedmd-nfdp"], "unit": "record", "smallest_epsilon": 0.0, "delta": 0.5}
    site = site_for(tmp_path, **rules, longest_training_s=1e-3)
    found, metrics = ask(site, settings(NfdpSettings, site, k=20, min_size=40), "fedmd-nfdp", 1)
    assert found == [] and "TimeLimitError" in metrics["detail"]
