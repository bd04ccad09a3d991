"""A site among others with targets of their own is charged for its own weight, whatever the server says of others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedballot.privacy.ledger import Ledger
from fedballot.privacy.mechanism import Facts
from fedballot.privacy.mechanisms.weighted import WeightedVotes
from fedballot.settings.voting import PateSettings
from tests.deploy.harness import write_data
from tests.deploy.test_ledger_site import ask, charges, make_site, settings_for


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "fingerprint").write_text(write_data(tmp_path))
    return tmp_path


def votes_of(settings: PateSettings, client: int) -> WeightedVotes:
    noisy: Any = settings.composition(Facts(classes=10, client=client)).parts["votes"]
    return noisy


def test_a_site_is_charged_for_its_own_weight_and_answers_with_it(folder: Path) -> None:
    for number, target in ((0, 40.0), (1, 5.0)):
        site = make_site(folder, number)
        settings = settings_for(site, client_epsilons=(40.0, 5.0))
        arrays, metrics = ask(site, settings=settings)
        own, ledger = votes_of(settings, number), Ledger(site.parent / "ledger")
        assert metrics["refused"] == "" and len(arrays) == 1
        (cost,) = ledger.costs()
        assert cost == own.cost(ledger.account.unit)
        assert own.epsilon(settings.delta) <= target and (own.weight == 64) == (number == 0)


def test_a_site_that_allows_little_takes_part_among_those_that_allow_much(folder: Path) -> None:
    """What a single release may cost is a rule about the site's own."""
    site = make_site(folder, 1, largest_epsilon=20.0)
    _, metrics = ask(site, "one/1", settings_for(site, client_epsilons=(5.0, 40.0)))
    assert metrics["refused"] == "policy" and "this site allows 0.1 to 20" in metrics["detail"]
    _, metrics = ask(site, "two/1", settings_for(site, client_epsilons=(40.0, 5.0)))
    assert metrics["refused"] == "" and charges(site) == 1


def test_other_targets_under_a_known_name_are_another_request(folder: Path) -> None:
    site = make_site(folder, 1)
    first, _ = ask(site, settings=settings_for(site, client_epsilons=(40.0, 5.0)))
    for targets in ((5.0, 40.0), (40.0, 4.0), ()):
        out, metrics = ask(site, settings=settings_for(site, client_epsilons=targets))
        assert (out, metrics["refused"]) == ([], "request")
    again, _ = ask(site, settings=settings_for(site, client_epsilons=(40.0, 5.0)))
    assert np.array_equal(first[0], again[0]) and charges(site) == 1


def test_under_another_name_they_are_charged_until_nothing_is_left(folder: Path) -> None:
    site = make_site(folder, 1, epsilon=60.0)
    refused = []
    for number, targets in enumerate([(40.0, 5.0), (5.0, 40.0), (40.0, 20.0), (40.0, 39.0)]):
        _, metrics = ask(site, f"run{number}/1", settings_for(site, client_epsilons=targets))
        refused.append(metrics["refused"])
    ledger = Ledger(site.parent / "ledger")
    assert refused[0] == "" and "budget" in refused and ledger.spent() <= 60


@pytest.mark.parametrize(
    ("rules", "targets", "words"),
    [
        ("", (40.0, 5e-4), "client_epsilons=(40.0, 0.0005); this site allows 0.001 to 1000"),
        ("client_epsilons = [10, 100]\n", (40.0, 5.0), "client_epsilons=(40.0, 5.0); this site allows 10 to 100"),
        ("client_epsilons = [10, 100]\n", (40.0, 12.0), ""),
        ("client_epsilons = [10, 100]\n", (), ""),
    ],
)
def test_a_site_s_file_may_limit_the_targets(folder: Path, rules: str, targets: Any, words: str) -> None:
    site = make_site(folder, 1)
    site.write_text(site.read_text() + rules)
    _, metrics = ask(site, settings=settings_for(site, client_epsilons=targets))
    assert (metrics["refused"], metrics["detail"]) == (("policy", words) if words else ("", ""))


def test_a_target_that_no_weight_keeps_to_is_refused_before_any_charge(folder: Path) -> None:
    site = make_site(folder, 1)
    _, metrics = ask(site, settings=settings_for(site, client_epsilons=(40.0, 0.01)))
    assert metrics["refused"] == "settings" and charges(site) == 0
