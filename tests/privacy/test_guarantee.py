"""Guarantees as data: what they say, warn of and refuse."""

import json
import math
from dataclasses import FrozenInstanceError, replace

import pytest

from fedballot.errors import SettingsError
from fedballot.privacy.guarantee import SELF, TRUSTED_AGGREGATOR, Guarantee, Trust, combine, secure_aggregation

AGENT = Guarantee(
    mechanism="noisy vote counts",
    unit="agent",
    adjacency="zero-out",
    epsilon=4.3,
    delta=1e-3,
    view="output only",
    trust=TRUSTED_AGGREGATOR,
    status="proved",
    accountant="exact",
    n=100,
)


def test_sentence_states_everything_that_the_number_depends_on() -> None:
    said = AGENT.sentence()
    for part in (
        "what the aggregator publishes",
        "participant",
        "73.7",
        "4.3",
        "0.001",
        "must be trusted",
        "one release",
    ):
        assert part in said
    assert said[0].isupper() and said.endswith(".")


def test_every_combination_has_a_sentence_of_its_own() -> None:
    said = {
        replace(AGENT, unit=u, adjacency=a, view=v, status=s, trust=t).sentence()
        for u in ("record", "agent")
        for a in ("add-remove", "replace-one", "zero-out")
        for v in ("output only", "server's view", "network")
        for s in ("proved", "paper's claim", "seeded")
        for t in (SELF, TRUSTED_AGGREGATOR, secure_aggregation(70, 10))
    }
    assert len(said) == 2 * 3 * 3 * 3 * 3


def test_seeded_noise_and_no_guarantee_are_never_dressed_up() -> None:
    assert replace(AGENT, status="seeded").sentence().startswith("NOT PRIVATE")
    assert "no privacy guarantee" in replace(AGENT, status="none").sentence()
    assert "no privacy guarantee" in replace(AGENT, epsilon=math.inf).sentence()


def test_huge_epsilon_does_not_overflow() -> None:
    assert "e^5000" in replace(AGENT, epsilon=5000.0).sentence()


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"delta": 0.01}, "1/n"),
        ({"epsilon": 10.5}, "above 10"),
        ({"unit": "record"}, "Only single records"),
        ({"status": "seeded"}, "seed"),
        ({"status": "none"}, "no privacy guarantee"),
        ({"epsilon": math.inf}, "no privacy guarantee"),
    ],
)
def test_warnings(change: dict[str, object], word: str) -> None:
    assert AGENT.warnings() == []
    assert any(word in warning for warning in replace(AGENT, **change).warnings())  # type: ignore[arg-type]


def test_dict_is_plain_json() -> None:
    plain = replace(AGENT, epsilon=math.inf, trust=secure_aggregation(70, 10)).to_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert plain["epsilon"] is None and plain["trust"] == "secure aggregation (m_min=70, t=10)"


def test_like_guarantees_add_up() -> None:
    total = AGENT + replace(AGENT, epsilon=0.7, delta=1e-4, status="paper's claim")
    assert total.epsilon == pytest.approx(5.0) and total.delta == pytest.approx(1.1e-3)
    assert total.status == "paper's claim"
    assert combine([AGENT]) == AGENT


@pytest.mark.parametrize(
    "change",
    [{"unit": "record"}, {"adjacency": "replace-one"}, {"view": "network"}, {"trust": SELF}, {"n": 7}],
)
def test_unlike_guarantees_do_not(change: dict[str, object]) -> None:
    with pytest.raises(SettingsError, match=next(iter(change))):
        AGENT + replace(AGENT, **change)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change",
    [{"unit": "family"}, {"epsilon": -1.0}, {"epsilon": math.nan}, {"delta": 1.5}, {"status": "sure"}, {"n": 0}],
)
def test_refuses_what_is_no_guarantee(change: dict[str, object]) -> None:
    with pytest.raises(SettingsError):
        replace(AGENT, **change)  # type: ignore[arg-type]


def test_trust_is_checked_and_frozen() -> None:
    for bad in (("secure aggregation", None, 0), ("secure aggregation", 5, 5), ("self", 3, 0), ("hope", None, 0)):
        with pytest.raises(SettingsError):
            Trust(*bad)
    with pytest.raises(FrozenInstanceError):
        AGENT.epsilon = 1.0  # type: ignore[misc]


def test_nothing_to_combine() -> None:
    with pytest.raises(SettingsError, match="nothing"):
        combine([])
