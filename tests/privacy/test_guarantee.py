"""Guarantees as data: what they say, warn of and refuse."""

import doctest
import json
import math
import re
from dataclasses import FrozenInstanceError, replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import norm

from fedballot.core.errors import SettingsError
from fedballot.privacy import guarantee as guarantee_module
from fedballot.privacy.accounting import gaussian
from fedballot.privacy.guarantee import SELF, TRUSTED_AGGREGATOR, Guarantee, Trust, combine, secure_aggregation
from fedballot.privacy.mechanisms.nfdp import NfdpSample
from fedballot.privacy.words import adjacency_note, holds, tone, whom

CLIENT = Guarantee(
    mechanism="noisy vote counts",
    unit="client",
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
    said = CLIENT.sentence()
    for part in (
        "what the aggregator publishes",
        "client",
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
        replace(CLIENT, unit=u, adjacency=a, view=v, status=s, trust=t).sentence()
        for u in ("record", "person", "client")
        for a in ("add-remove", "replace-one", "zero-out")
        for v in ("output only", "server's view", "network")
        for s in ("proved", "paper's claim", "seeded")
        for t in (SELF, TRUSTED_AGGREGATOR, secure_aggregation(70, 10))
    }
    assert len(said) == 3 * 3 * 3 * 3 * 3


FIGURES = re.compile(r"a factor of ([^ ]+) \(epsilon = ([^)]+)\)(?:, plus ([^ ]+) \(delta\))?")


def said_bound(guarantee: Guarantee) -> tuple[float, float]:
    """Factor and slack that a sentence names, as somebody who quotes it would read them."""
    found = FIGURES.search(guarantee.sentence())
    assert found is not None
    return float(found[1].replace(",", "")), float(found[3] or 0.0)


@given(
    mu=st.floats(0.05, 3.0),
    epsilon=st.floats(0.01, 8.0),
    cut=st.floats(-6.0, 9.0),
)
@example(mu=1.0, epsilon=4.0, cut=4.5)
@example(mu=0.3, epsilon=0.25, cut=0.99)
def test_what_the_sentence_says_holds_of_the_exact_gaussian(mu: float, epsilon: float, cut: float) -> None:
    """P(E) <= factor * P'(E) + delta for every half-line E, both ways round, with the figures as they are printed."""
    delta = gaussian.delta(mu, epsilon)
    factor, slack = said_bound(replace(CLIENT, epsilon=epsilon, delta=delta))
    for here, there in ((norm.sf(cut - mu), norm.sf(cut)), (norm.cdf(cut), norm.cdf(cut - mu))):
        assert here <= factor * there + slack + 1e-12
        assert there <= factor * here + slack + 1e-12


@pytest.mark.parametrize(("epsilon", "times"), [(4.0, 3.63), (0.25, 22.9)])
def test_a_ratio_beyond_the_factor_is_likelier_than_delta(epsilon: float, times: float) -> None:
    """Why no sentence may say that the ratio of two probabilities stays below the factor but for a chance of delta."""
    mu = gaussian.mu(epsilon, 1e-3)
    assert norm.cdf(mu / 2 - epsilon / mu) == pytest.approx(times * 1e-3, rel=2e-3)


@given(value=st.floats(1e-4, 60.0), delta=st.floats(1e-9, 0.5))
def test_figures_in_a_sentence_are_rounded_up(value: float, delta: float) -> None:
    factor, slack = said_bound(replace(CLIENT, epsilon=value, delta=delta))
    assert factor >= math.exp(value) * (1 - 1e-8) and slack >= delta * (1 - 1e-8)
    assert factor <= math.exp(value) * 1.011 and slack <= delta * 1.011


def test_pure_privacy_has_no_slack() -> None:
    said = replace(CLIENT, epsilon=1.0, delta=0.0).sentence()
    assert "at most a factor of 2.72 (epsilon = 1);" in said and "delta" not in said


def sampled(k: int, n: int) -> Guarantee:
    sample = NfdpSample(n, k)
    record = {"unit": "record", "adjacency": "add-remove", "view": "server's view", "trust": SELF, "n": n}
    return replace(CLIENT, **record, epsilon=0.0, delta=sample.delta, sampled=True)  # type: ignore[arg-type]


def test_a_sample_is_described_in_words_of_its_own() -> None:
    said = sampled(18, 300).sentence()
    assert "with probability at least 0.9416 a given record was never used" in said[0].lower() + said[1:]
    assert "0.0584 (delta) it was drawn, and then nothing protects it" in said and "factor" not in said
    seeded = replace(sampled(18, 300), status="seeded")
    assert seeded.sentence().startswith("NOT PRIVATE, the sample was drawn from a known seed")
    assert any("which records were drawn" in warning for warning in seeded.warnings())
    claim = replace(sampled(18, 300), epsilon=0.0599, status="paper's claim").sentence()
    assert "a factor of 1.07" in claim and "never used" not in claim
    with pytest.raises(SettingsError, match="records"):
        replace(CLIENT, sampled=True)


def test_samples_add_up_to_a_sample_and_with_noise_to_none() -> None:
    one = sampled(18, 300)
    both, mixed = one + one, one + replace(one, sampled=False, epsilon=1.0)
    assert both.sampled and "never used" in both.sentence()
    assert not mixed.sampled and "a factor of 2.72" in mixed.sentence()


def test_what_protects_nobody_speaks_of_no_protection() -> None:
    for change in ({"status": "none"}, {"epsilon": math.inf}):
        bare = replace(CLIENT, unit="record", n=None, **change)  # type: ignore[arg-type]
        assert bare.warnings() == ["There is no privacy guarantee."]
        assert not re.search("protect", " ".join([bare.sentence(), *bare.warnings()]))
        assert not holds(bare.to_dict()) and whom(bare.to_dict()) == "nobody"
    assert whom(replace(CLIENT, status="seeded").to_dict()) == "nobody"
    assert whom(CLIENT.to_dict()) == "one client (zero-out)"


def test_a_number_that_is_not_known_is_said_not_to_be() -> None:
    (unknown,) = replace(CLIENT, n=None).warnings()
    assert "not known" in unknown and "0.001 says little about 1,000 clients or more" in unknown
    assert replace(CLIENT, n=None, delta=0.0).warnings() == replace(CLIENT, n=None, delta=1e-11).warnings() == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"epsilon": 1.0}, "good"),
        ({"epsilon": 1.01}, "warn"),
        ({"epsilon": 10.0}, "warn"),
        ({"epsilon": 10.01}, "bad"),
        ({"epsilon": 100.0}, "bad"),
        ({"epsilon": 0.5, "n": None}, "warn"),
        ({"epsilon": 0.5, "n": None, "delta": 0.0}, "good"),
        ({"epsilon": 0.5, "delta": 0.01}, "warn"),
        ({"epsilon": 0.0, "delta": 0.2}, "bad"),
        ({"epsilon": 0.5, "status": "paper's claim"}, "warn"),
        ({"epsilon": 0.5, "status": "seeded"}, "bad"),
        ({"epsilon": 0.5, "status": "none"}, "bad"),
        ({"epsilon": math.inf}, "bad"),
    ],
)
def test_the_colour_follows_epsilon_and_delta_as_well_as_the_status(change: dict[str, object], expected: str) -> None:
    assert tone(replace(CLIENT, **change).to_dict()) == expected  # type: ignore[arg-type]


def test_a_larger_epsilon_of_records_is_explained_by_its_adjacency() -> None:
    record = replace(CLIENT, unit="record", adjacency="replace-one", epsilon=6.22)
    note = adjacency_note([CLIENT.to_dict(), record.to_dict()])
    assert "to replace is to blank one and put in another" in note
    for other in (
        replace(record, epsilon=3.0),
        replace(record, view="server's view"),
        replace(record, epsilon=math.inf),
        replace(record, adjacency="zero-out"),
    ):
        assert adjacency_note([CLIENT.to_dict(), other.to_dict()]) == ""


def test_all_records_of_a_person_are_many() -> None:
    said = replace(CLIENT, unit="person", adjacency="replace-one").sentence()
    assert "whether all records of one person are the true ones or any others changes" in said


def test_seeded_noise_and_no_guarantee_are_never_dressed_up() -> None:
    assert replace(CLIENT, status="seeded").sentence().startswith("NOT PRIVATE")
    assert "no privacy guarantee" in replace(CLIENT, status="none").sentence()
    assert "no privacy guarantee" in replace(CLIENT, epsilon=math.inf).sentence()


def test_huge_epsilon_does_not_overflow() -> None:
    assert "e^5000" in replace(CLIENT, epsilon=5000.0).sentence()


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
    assert CLIENT.warnings() == []
    assert any(word in warning for warning in replace(CLIENT, **change).warnings())  # type: ignore[arg-type]


def test_dict_is_plain_json() -> None:
    plain = replace(CLIENT, epsilon=math.inf, trust=secure_aggregation(70, 10)).to_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert plain["epsilon"] is None and plain["trust"] == "secure aggregation (min_clients=70, colluders=10)"


def test_like_guarantees_add_up() -> None:
    total = CLIENT + replace(CLIENT, epsilon=0.7, delta=1e-4, status="paper's claim")
    assert total.epsilon == pytest.approx(5.0) and total.delta == pytest.approx(1.1e-3)
    assert total.status == "paper's claim"
    assert combine([CLIENT]) == CLIENT


@pytest.mark.parametrize(
    "change",
    [{"unit": "record"}, {"adjacency": "replace-one"}, {"view": "network"}, {"trust": SELF}, {"n": 7}],
)
def test_unlike_guarantees_do_not(change: dict[str, object]) -> None:
    with pytest.raises(SettingsError, match=next(iter(change))):
        CLIENT + replace(CLIENT, **change)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "change",
    [{"unit": "family"}, {"epsilon": -1.0}, {"epsilon": math.nan}, {"delta": 1.5}, {"status": "sure"}, {"n": 0}],
)
def test_refuses_what_is_no_guarantee(change: dict[str, object]) -> None:
    with pytest.raises(SettingsError):
        replace(CLIENT, **change)  # type: ignore[arg-type]


def test_trust_is_checked_and_frozen() -> None:
    for bad in (("secure aggregation", None, 0), ("secure aggregation", 5, 5), ("self", 3, 0), ("hope", None, 0)):
        with pytest.raises(SettingsError):
            Trust(*bad)
    with pytest.raises(FrozenInstanceError):
        CLIENT.epsilon = 1.0  # type: ignore[misc]


def test_nothing_to_combine() -> None:
    with pytest.raises(SettingsError, match="nothing"):
        combine([])


def test_the_example_in_the_documentation() -> None:
    assert doctest.testmod(guarantee_module).failed == 0
