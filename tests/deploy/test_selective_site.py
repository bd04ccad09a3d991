"""Rivals at a site: what has no guarantee stays there, FedKT with noise leaves at one charge, on features it allows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedballot.core.setting import build
from fedballot.datasets.own import SITES
from fedballot.deploy.client import SiteClient
from fedballot.methods.registry import get_method
from fedballot.privacy.ledger import Ledger
from fedballot.runs.engine import federated_data
from tests.conftest import fitting
from tests.deploy.test_fedmd_site import site_for


def ask(site: Path, name: str, **changes: Any) -> tuple[list[Any], dict[str, Any]]:
    method, public = get_method(name), str(site.parents[1] / "public.npz")
    values = {"dataset": SITES, "public_dataset": public, "clients": 3, "public_size": 200, "test_size": 100}
    values |= {"queries": 50, "client_models": "logistic-regression", "subsets": 2, **changes}
    settings = build(method.settings, fitting(method.settings, values))
    config = {"request": "r/1", "round": 1, "fingerprint": federated_data(settings).public_fingerprint}
    out, _, metrics = SiteClient(site, method, settings).fit([np.arange(50, dtype=np.int32)], config)
    return out, metrics


@pytest.mark.parametrize("method", ["selective-fd", "ds-fl", "fedkt"])
def test_what_nothing_protects_stays_at_the_site(method: str, tmp_path: Path) -> None:
    site = site_for(tmp_path, methods=[method])
    arrays, metrics = ask(site, method)
    assert arrays == [] and metrics["refused"] == "policy"
    folder = site.parent / "ledger"
    assert not folder.exists() or Ledger(folder).costs() == []


def test_votes_with_noise_leave_at_one_charge_and_learn_from_features_that_are_allowed(tmp_path: Path) -> None:
    site = site_for(tmp_path, methods=["fedkt"], extractors=["hog"], secure_aggregation=False)
    arrays, metrics = ask(site, "fedkt", epsilon=5.0, client_features="pca")
    assert arrays == [] and metrics["refused"] == "policy" and "client_features='pca'" in metrics["detail"]
    first, again = (ask(site, "fedkt", epsilon=5.0, client_features="hog") for _ in range(2))
    assert first[1]["refused"] == "" and first[0][0].tobytes() == again[0][0].tobytes()
    ledger = Ledger(site.parent / "ledger")
    assert [line["kind"] for line in ledger.lines()].count("charge") == 1
    assert ledger.spent() == pytest.approx(5, rel=1e-2)
