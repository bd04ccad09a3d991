"""Secure aggregation at real sites: rules, ledgers, restarts without the network; one run of three SuperNodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedballot.api.experiment import resolve
from fedballot.core.setting import build
from fedballot.datasets.own import SITES
from fedballot.deploy.client import SiteClient
from fedballot.deploy.site_file import read_site
from fedballot.methods.registry import get_method
from fedballot.privacy.ledger import Ledger
from fedballot.privacy.ledger.heads import Heads
from fedballot.runs.engine import federated_data
from fedballot.settings.fedmd import FedmdSettings
from fedballot.settings.voting import PateSettings, ballot_form
from fedballot.wire import secagg
from tests.conftest import fitting
from tests.deploy.harness import edit, three_sites


@pytest.fixture
def sites(tmp_path: Path) -> list[Path]:
    """Files of three sites, as `fedballot site init` makes them: ballots leave under masks only."""
    return three_sites(tmp_path, model="logistic-regression", largest_epsilon=50.0, epsilon=100.0)


def settings_for(site: Path, kind: type[Any] = PateSettings, **changes: Any) -> Any:
    values = {
        "dataset": SITES,
        "public_dataset": str(site.parents[1] / "public.npz"),
        "clients": 3,
        "public_size": 100,
        "test_size": 100,
        "client_models": "mlp",
        **changes,
    }
    return build(kind, fitting(kind, values))


def ask(site: Path, settings: Any, arrays: list[np.ndarray], method: str = "pate-fl", **config: Any) -> Any:
    config = {"request": "r/1", "round": 1, "fingerprint": federated_data(settings).public_fingerprint, **config}
    out, one, metrics = SiteClient(site, get_method(method), settings).fit(arrays, config)
    assert one == 1
    return out, metrics


def charges(site: Path) -> int:
    path = site.parent / "ledger" / "ledger.jsonl"
    return path.read_text().count('"kind": "charge"') if path.exists() else 0


def test_three_sites_add_up_and_each_charges_its_own_ledger_once(sites: list[Path], reads: list[str]) -> None:
    """Every message is answered by a new client object, as after a restart of the SuperNode."""
    settings = settings_for(sites[0], secure_aggregation=True, epsilon=40, vote_fraction=1, min_clients=2)
    exchange, queries = secagg.Exchange(settings.plan, ballot_form(settings, 10), "r/1"), np.arange(100, dtype=np.int32)
    for stage, so_far in zip(secagg.STAGES, ([0, 0, 0], [0, 0, 0], [1, 1, 0], [1, 1, 0], [1, 1, 0]), strict=True):
        for number, site in enumerate(sites):
            if number == 2 and stage not in (secagg.KEYS, secagg.SHARES):
                continue
            arrays = [queries] if stage == secagg.KEYS else exchange.ask(number)
            reads.clear()
            out, metrics = ask(site, settings, arrays, stage=stage, session=exchange.session)
            assert metrics["refused"] == "", metrics["detail"]
            assert len(reads) == (0 if stage == secagg.KEYS else 1), "the first message makes the ledger"
            exchange.receive(number, exchange.read(number, out))
        exchange.advance()
        assert [charges(site) for site in sites] == so_far
    released = [Ledger(site.parent / "ledger").stored("r/1") for site in sites[:2]]
    assert np.array_equal(exchange.total, sum(one["votes"].astype(int) for one in released if one))
    for site in sites:
        assert not any(path.stat().st_mode & 0o077 for path in site.parent.glob("state/runs/*/secagg/*.npz"))


def test_a_site_whose_rules_ask_for_masks_refuses_the_clear(sites: list[Path]) -> None:
    assert read_site(sites[0]).allowed.secure_aggregation
    settings = settings_for(sites[0], secure_aggregation=False, epsilon=40, vote_fraction=1)
    out, metrics = ask(sites[0], settings, [np.arange(100, dtype=np.int32)])
    assert (out, metrics["refused"]) == ([], "policy")
    assert "leaves under masks" in metrics["detail"] and charges(sites[0]) == 0


def test_a_stage_in_a_request_is_no_way_round_the_ledger(sites: list[Path]) -> None:
    """Exchanges of keys are not charged; a method that knows none must not pass for one."""
    edit(sites[0], methods=["fedmd", "standalone"])
    settings = settings_for(sites[0], FedmdSettings, queries=50, pretrain_epochs=0)
    out, metrics = ask(sites[0], settings, [np.arange(50, dtype=np.int32)], "fedmd", stage=secagg.KEYS, session="s")
    assert (out, metrics["refused"]) == ([], "policy") and "nothing uncharged" in metrics["detail"]
    assert charges(sites[0]) == 0


def test_it_is_on_by_default_in_deployments_and_off_in_simulations() -> None:
    for deployed in (False, True):
        assert resolve("pate-fl", {}, deployed=deployed).secure_aggregation is deployed
    words = {"secure_aggregation": "false"}
    assert not resolve("pate-fl", words, deployed=True).secure_aggregation
    assert not hasattr(resolve("fedmd", {}, deployed=True), "secure_aggregation")


@pytest.mark.slow
def test_three_supernodes_on_loopback(federation: Any) -> None:
    few = {"min_clients": 2, "server_epochs": 1, "evaluate_clients": False}
    done = federation.submit("masked", "--json", timeout=600, secure_aggregation=None, **few)
    assert done.returncode == 0, done.stderr
    result = federation.result("masked")
    assert result["settings"]["secure_aggregation"] and result["clients"]["answered"] == 3
    assert result["guarantees"][0]["trust"] == "secure aggregation (min_clients=2, colluders=0)"
    assert result["communication"]["messages"] == 30
    assert len(Heads(federation.server.heads).read()) >= 3, "each site has shown a head"
    histogram = np.load(federation.folder / "masked" / "release.npz")["histogram"]
    sums = np.zeros_like(histogram)
    for number in range(3):
        line = [one for one in federation.ledger(number) if one["kind"] == "charge"][-1]
        stored = Ledger(federation.site(number) / "ledger").stored(line["request"])
        assert stored is not None
        sums += stored["votes"]
    assert np.array_equal(histogram, sums)
    assert "saw" in (federation.folder / "masked" / "report.html").read_text()
    print("FIGURES", result["timing"], result["communication"])
