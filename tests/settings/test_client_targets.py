"""Privacy targets of single clients: whose vote counts how much, what is promised to whom, and what is refused."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from fedballot.core.errors import SettingsError
from fedballot.core.setting import build
from fedballot.privacy.mechanism import Facts
from fedballot.privacy.mechanisms.votes import NoisyVotes
from fedballot.privacy.mechanisms.weighted import WHOLE, WeightedVotes
from fedballot.runs.run_config import settings_text
from fedballot.settings.layers import parse_assignments
from fedballot.settings.voting import PateSettings, ballot_form, mechanism
from fedballot.studies.attacks.measure import promise

FEDERATION = {"clients": 7, "public_size": 400, "epsilon": 1.0}
FACTS = Facts(classes=10, all_records=700, largest_client=200)
UNITS = pytest.mark.parametrize("unit", ["client", "record"])


def settings_of(*targets: float, **more: Any) -> PateSettings:
    return build(PateSettings, FEDERATION, {"client_epsilons": targets, **more})


def vote(settings: PateSettings, client: int | None) -> Any:
    return settings.composition(replace(FACTS, client=client)).parts["votes"]


@pytest.mark.parametrize("targets", [(1.0,), (1.0, 1.0)])
def test_one_target_for_all_changes_nothing(targets: tuple[float, ...]) -> None:
    plain, same = build(PateSettings, FEDERATION), settings_of(*targets)
    for client in (None, 0, 6):
        assert type(vote(same, client)) is NoisyVotes and vote(same, client) == vote(plain, client)
    assert ballot_form(same, 10) == ballot_form(plain, 10)
    assert same.composition(FACTS).guarantees() == plain.composition(FACTS).guarantees()


@UNITS
def test_each_client_votes_with_the_largest_weight_that_its_target_allows(unit: str) -> None:
    settings = settings_of(0.2, 1.0, 0.5, unit=unit)
    assert mechanism(settings).sigma == pytest.approx(mechanism(settings_of(unit=unit)).sigma, rel=1e-4)
    for client, target in enumerate((0.2, 1.0, 0.5, 0.2, 1.0, 0.5, 0.2)):
        composition, noisy = settings.composition(replace(FACTS, client=client)), vote(settings, client)
        assert composition.epsilon == noisy.epsilon(1e-3, unit) <= target
        assert (noisy.weight == WHOLE) == (target == 1)
        assert target == 1 or replace(noisy, weight=noisy.weight + 1).epsilon(1e-3, unit) > target
        assert replace(noisy, weight=WHOLE) == mechanism(settings)
        (aimed, *others) = composition.guarantees()
        assert (aimed.unit, aimed.epsilon, aimed.among) == (unit, composition.epsilon, "")
        assert not any(one.among for one in others)
    assert 0.15 < vote(settings, 0).weight / WHOLE < vote(settings, 2).weight / WHOLE < 0.65


@UNITS
def test_the_result_states_what_all_are_promised_and_then_what_each_group_is(unit: str) -> None:
    settings = settings_of(0.2, 1.0, 0.5, unit=unit)
    stated, full = settings.composition(FACTS).guarantees(), mechanism(settings)
    assert stated[0].unit == unit and stated[0].epsilon == full.epsilon(1e-3, unit) <= 1
    assert [one.among for one in stated] == [
        *[""] * 5,
        *["the 3 clients whose target is 0.2"] * 3,
        *["the 2 clients whose target is 0.5"] * 3,
    ]
    for first, client, target in ((5, 0, 0.2), (8, 2, 0.5)):
        own = vote(settings, client)
        for one in stated[first : first + 2]:
            assert one.epsilon == own.epsilon(1e-3, one.unit) and one.status == "proved" and one.view == "output only"
        assert stated[first].unit == unit and stated[first].epsilon <= target
        assert stated[first + 2].epsilon == own.cost_alone().epsilon(1e-3) and stated[first + 2].trust.kind == "self"
        assert f" of {stated[first].among} " in stated[first].sentence()
    assert {"among"} == stated[5].to_dict().keys() - stated[0].to_dict().keys()
    assert promise(stated, "output only") == promise(stated[:5], "output only")  # to whatever client


def test_targets_that_are_nearly_alike_are_groups_of_their_own() -> None:
    stated = settings_of(1.0, 0.5, 0.50000001, clients=6).composition(FACTS).guarantees()
    assert [one.among for one in stated[5:]] == [
        *["the 2 clients whose target is 0.5"] * 3,
        *["the 2 clients whose target is 0.50000001"] * 3,
    ]
    (*_, last) = settings_of(1.0, 0.9999999, clients=2).composition(FACTS).guarantees()
    assert last.among == "the 1 client whose target is 0.9999999"


def test_under_masks_each_group_has_the_noise_of_those_who_came() -> None:
    settings = settings_of(0.2, 1.0, secure_aggregation=True, min_clients=5)
    found = settings.composition(replace(FACTS, arrived=7)).guarantees()
    few = settings.composition(replace(FACTS, arrived=5)).guarantees()
    assert [one.among != "" for one in found] == [False] * 4 + [True] * 2
    assert all(more.epsilon < less.epsilon for more, less in zip(found, few, strict=True))
    assert {one.view for one in found} == {"server's view"}
    # nothing in the form of a ballot tells the weights
    assert ballot_form(settings, 10).largest == WHOLE + math.ceil(12 * mechanism(settings).share_sigma)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"client_epsilons": "0.5,2"}, ["client_epsilons=0.5,2", "epsilon=1", "set epsilon=2"]),
        ({"client_epsilons": "0.25,0.5"}, ["epsilon=1", "set epsilon=0.5"]),
        ({"client_epsilons": "0.5,1", "epsilon": "inf"}, ["client_epsilons=0.5,1 and epsilon=inf contradict"]),
        ({"client_epsilons": "0.5,1", "sigma": 8}, ["client_epsilons=0.5,1 and sigma=8 contradict", "sigma=0"]),
        ({"client_epsilons": "0.5,1", "clients": 1}, ["2 targets for clients=1"]),
        ({"client_epsilons": "0.5,0"}, ["client_epsilons=0", "more than 0"]),
        ({"client_epsilons": "inf,1"}, ["client_epsilons=inf is not a finite number"]),
        ({"client_epsilons": "1,nan"}, ["client_epsilons=nan is not a finite number"]),
        ({"client_epsilons": "1,,0.5"}, ["numbers separated by commas"]),
        ({"client_epsilons": [""]}, ["numbers separated by commas"]),
        ({"client_epsilons": "low,1"}, ["client_epsilons='low,1' is not numbers separated by commas"]),
    ],
)
def test_errors_name_the_setting_the_value_and_what_to_do(values: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(SettingsError) as error:
        build(PateSettings, FEDERATION, values)
    assert all(word in str(error.value) for word in words), str(error.value)


@UNITS
def test_a_target_below_what_the_smallest_weight_costs_is_refused_with_the_least_there_is(unit: str) -> None:
    settings = settings_of(1e-3, 1.0, unit=unit)
    for client in (0, None):
        with pytest.raises(SettingsError, match=r"client_epsilons: 0\.001 is too small a target") as error:
            settings.composition(replace(FACTS, client=client)).guarantees()
    least = float(str(error.value).partition("costs epsilon ")[2].partition(";")[0])
    assert vote(settings_of(least, 1.0, unit=unit), 0).weight == 1


def test_targets_are_written_and_read_back() -> None:
    settings = settings_of(0.25, 1.0)
    assert build(PateSettings, settings.to_dict()) == settings
    for one in (settings, settings_of()):
        words = [pair for pair in settings_text(one).split() if pair.startswith("client_epsilons")]
        assert build(PateSettings, FEDERATION, parse_assignments(words)) == one
    for none in ("", " ", [], ()):
        assert build(PateSettings, FEDERATION, {"client_epsilons": none}) == settings_of()
    for one_number in (1.0, 1, "1", [1]):  # as a file or Python may have it
        assert build(PateSettings, FEDERATION, {"client_epsilons": one_number}) == settings_of(1.0)
    assert "client_epsilons" in settings.headline() and "client_epsilons" not in settings_of().headline()


def test_the_mechanism_of_all_is_that_of_the_full_vote() -> None:
    full = mechanism(settings_of(0.25, 1.0))
    assert isinstance(full, WeightedVotes) and full.weight == WHOLE
