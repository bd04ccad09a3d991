"""FedAUXfdp at a site: its release stands in the site's own ledger, and fits what the server expects."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedballot.core.setting import build
from fedballot.datasets.own import SITES
from fedballot.deploy.client import SiteClient
from fedballot.deploy.template import init_site
from fedballot.methods.registry import get_method
from fedballot.privacy.ledger import Ledger
from fedballot.runs.engine import federated_data, new_strategy
from fedballot.settings.fedaux import FedauxfdpSettings
from tests.deploy.harness import edit, write_data


@pytest.mark.parametrize(("head", "charges"), [("class-sums", 1), ("logistic", 2)])
def test_a_site_tells_class_sums_or_heads_once_and_pays_for_them(head, charges, tmp_path: Path, monkeypatch) -> None:
    """But not from a ledger about the whole site, whose data move a release further than one record does."""
    monkeypatch.setenv("FEDBALLOT_CACHE", str(tmp_path / "cache"))
    print_ = write_data(tmp_path)
    init_site(tmp_path / "site", number=1, sites=3, server="localhost:1")
    path = tmp_path / "site" / "site.toml"
    places = {"private": str(tmp_path / "own1.npz"), "public": str(tmp_path / "public.npz")}
    rules = {"methods": ["fedauxfdp"], "unit": "record", "delta": 2e-5, "largest_epsilon": 10.0, "epsilon": 20.0}
    rules["smallest_epsilon"] = 0.0
    edit(path, **places, model="logistic-regression", public_fingerprint=print_, **rules)
    values = {"dataset": SITES, "public_dataset": str(tmp_path / "public.npz"), "clients": 3, "public_size": 200}
    values |= {"test_size": 100, "records": 100, "head": head, "epsilon": 5.0, "score_epsilon": 2.0}
    settings = build(FedauxfdpSettings, values, {"extractor": "pca", "components": 20})
    data = federated_data(settings)
    server = new_strategy(get_method("fedauxfdp"), settings, data, request_id="r")
    config = {"request": "r/1", "round": 1, "fingerprint": data.public_fingerprint}
    for _ in range(2):
        arrays, _, metrics = SiteClient(path, get_method("fedauxfdp"), settings).fit(server.request(1), config)
        assert metrics["refused"] == "", metrics
        assert len(server.read(arrays)) == (160 if head == "logistic" else len(data.classes))
    ledger = Ledger(path.parent / "ledger")
    assert [line["kind"] for line in ledger.lines()] == ["open", "data", "charge", "release"]
    assert len(ledger.costs()) == charges  # each head has its own cost, all in one charge
    assert server.guarantees()[0].status == "proved"
    edit(path, unit="client", ledger="of-the-site", population="others")
    arrays, _, metrics = SiteClient(path, get_method("fedauxfdp"), settings).fit(server.request(1), config)
    assert arrays == [] and metrics["refused"] == "policy" and "clients under zero-out" in metrics["detail"]
    assert Ledger(path.parent / "of-the-site").costs() == []
