"""Among how many units each private method protects one, and that its default delta suits that unit."""

from __future__ import annotations

from typing import Any

import pytest

from fedballot.core.setting import build
from fedballot.methods.registry import all_methods, get_method
from fedballot.privacy.guarantee import Guarantee
from fedballot.runs.engine import federated_data, new_strategy
from fedballot.settings.parts import CommonSettings
from tests.conftest import fitting

DATA = {
    "dataset": "digits",
    "private_size": 600,
    "public_size": 200,
    "test_size": 100,
    "clients": 4,
    "partition": "dirichlet",
    "alpha": 1.0,
    "min_size": 30,
    "server_model": "logistic-regression",
    "evaluate_clients": False,
}
SUM, OWN, SMALLEST, CLIENTS = (
    "all records",
    "records of the largest client",
    "records of the smallest client",
    "clients",
)
# for each guarantee in its order, what n counts
EXPECTED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "pate-fl": ({}, [CLIENTS, SUM, CLIENTS, CLIENTS, SUM]),
    "private-knn-fl": ({}, [SUM, CLIENTS, CLIENTS, OWN, CLIENTS, SUM]),
    "fedkt": ({"epsilon": 4.0}, [CLIENTS, SUM, CLIENTS]),
    "fedmd-nfdp": ({"k": 10, "pretrain_epochs": 0}, [SMALLEST, SMALLEST]),
    "fedmd-ldp": ({"pretrain_epochs": 0}, [CLIENTS]),
    "fedkd-dp": ({}, [CLIENTS, CLIENTS]),
    "fedauxfdp": ({"extractor": "pca+l2"}, [OWN]),
    "fedd-p": ({"extractor": "pca+l2", "mechanism": "paper"}, [OWN, OWN]),
    "fedavg-p": ({"extractor": "pca+l2"}, [OWN]),
    "fedauxfdp-sum": ({"extractor": "pca+l2"}, [SUM, OWN]),
    "poll": ({}, [SUM, OWN]),
    "dp-fedavg": ({"client_models": "linear-torch", "participation": 1}, [CLIENTS]),
    "dp-fedsgd": ({"client_models": "linear-torch", "rounds": 1, "epochs": 1, "noise_multiplier": 1.0}, [OWN]),
}


def settings_of(name: str, **over: Any) -> CommonSettings:
    learner = {"client_models": "logistic-regression"}
    kind = get_method(name).settings
    return build(kind, fitting(kind, DATA | learner), EXPECTED[name][0], over)


def stated(name: str, settings: CommonSettings) -> list[Guarantee]:
    data = federated_data(settings)
    made = new_strategy(get_method(name), settings, data, request_id="run")
    found: list[Guarantee] = made._guarantees(settings.clients) if hasattr(made, "_guarantees") else made.guarantees()
    return found


def test_every_method_that_protects_is_here() -> None:
    nothing = {name for name, one in all_methods().items() if one.protects.startswith(("nothing", "everything"))}
    assert set(EXPECTED) == set(all_methods()) - nothing


@pytest.mark.parametrize("name", EXPECTED)
def test_n_counts_the_units_among_which_one_is_protected(name: str) -> None:
    settings = settings_of(name)
    sizes = [part.size for part in federated_data(settings).parts]
    assert min(sizes) < max(sizes) < sum(sizes) == 600
    counts = {SUM: 600, OWN: max(sizes), SMALLEST: min(sizes), CLIENTS: 4}
    assert [one.n for one in stated(name, settings)] == [counts[what] for what in EXPECTED[name][1]]


@pytest.mark.parametrize("name", sorted(set(EXPECTED) - {"fedmd-nfdp"}))
def test_the_default_delta_suits_the_unit(name: str) -> None:
    (first, *_) = stated(name, settings_of(name))
    assert first.delta < 1 / first.n  # type: ignore[operator]
    assert first.delta <= (2e-5 if first.unit == "record" else 1e-3)
    assert not any("1/n" in warning for warning in first.warnings())


@pytest.mark.parametrize("delta", [1e-3, 5e-3])
def test_records_under_a_delta_for_clients_are_warned_of(delta: float) -> None:
    found = stated("pate-fl", settings_of("pate-fl", unit="record", delta=delta))
    assert found[0].unit == "record"
    assert any("at least 1/n = 0.00167" in warning for warning in found[0].warnings()) == (delta > 1 / 600)


@pytest.mark.parametrize("name", ["pate-fl", "private-knn-fl", "fedauxfdp", "fedauxfdp-sum", "dp-fedsgd"])
def test_sites_do_not_tell_how_many_records_they_hold_and_the_guarantee_says_so(name: str) -> None:
    sites = {"dataset": "sites", "public_dataset": "digits", "private_size": 0, "partition": "iid"}
    settings = settings_of(name, **sites, **({"records": 500} if name == "fedauxfdp-sum" else {}))
    records = [one for one in stated(name, settings) if one.unit == "record"]
    assert records
    for one in records:
        assert one.n is None
        assert any("not known" in warning and "records or more" in warning for warning in one.warnings())
