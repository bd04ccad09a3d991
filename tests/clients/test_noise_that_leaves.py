"""What leaves each private client: the value that its cost speaks of, cut to its bound, with all of the noise.

Drawn by the client itself, at every client; a chi-squared test sees half of the noise, and noise that is not there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from fedballot.clients.base import BallotClient
from fedballot.clients.fedmd_private import NfdpClient
from fedballot.clients.weights import Start
from fedballot.clients.weights_private import DpFedavgClient, DpFedsgdClient
from fedballot.clients.workspace import Workspace
from fedballot.core.folders import ClientFolder
from fedballot.core.setting import build
from fedballot.datasets.examples import Examples
from fedballot.datasets.federation import FederatedData
from fedballot.datasets.own import SITES
from fedballot.learners.flat import flatten
from fedballot.methods.registry import get_method
from fedballot.privacy import accounting
from fedballot.privacy.accounting import DeltaCost, GaussianCost, IntegerCost, PoissonCost
from fedballot.privacy.guarantee import ADJACENCY, Unit
from fedballot.privacy.ledger import Account, Ledger, RequestError
from fedballot.privacy.ledger.samples import sample_once
from fedballot.privacy.mechanisms.class_sums import class_sums
from fedballot.privacy.mechanisms.nfdp import NfdpSample
from fedballot.privacy.mechanisms.vectors import clip_rows
from fedballot.privacy.noise.randomness import os_noise
from fedballot.settings import fedkd, poll, voting
from fedballot.settings.class_sums import shared_mechanism, sums_mechanism
from fedballot.settings.heads import class_mechanism, score_mechanism
from fedballot.settings.parts import CommonSettings
from tests.conftest import fitting

CLIENTS, RECORDS, QUERIES, FEATURES, CLASSES = 3, 30, 40, 6, 3
ALL = {"clients": CLIENTS, "public_size": QUERIES, "test_size": 10, "min_size": 5, "evaluate_clients": False}
MODELS = {"client_models": "logistic-regression", "server_model": "logistic-regression"}
HEADS = {"extractor": "none", "epsilon": 4.0, "score_epsilon": 2.0}
POLL = {"cells": 8, "extractor": "none", "epsilon": 4.0}
NEAR_OR_FAR = (np.arange(QUERIES, dtype=np.int32) % 8, np.full(QUERIES, 2.0, dtype=np.float32))
TORCH = {"client_models": "mlp-torch", "rounds": 4}


def world(**parts: Any) -> FederatedData:
    """Three classes far from each other, so that models are sure of themselves."""
    rng = np.random.default_rng(0)
    centres = rng.normal(0, 4, (CLASSES, FEATURES))

    def records(n: int) -> tuple[np.ndarray, np.ndarray]:
        y = np.arange(n) % CLASSES
        return (centres[y] + rng.normal(0, 1, (n, FEATURES))).astype(np.float32), y

    (x, y), (public_x, public_y) = records(CLIENTS * RECORDS), records(QUERIES)
    given = {
        "classes": ("a", "b", "c"),
        "private": Examples(x, y),
        "parts": tuple(np.arange(RECORDS) + RECORDS * client_id for client_id in range(CLIENTS)),
        "public_x": public_x,
        "public_y": public_y,
        "test_x": public_x[:10],
        "test_y": public_y[:10],
        "public_fingerprint": "sha256:1",
        "group_names": (),
    }
    return FederatedData(**{**given, **parts})


WORLD = world()
UNITS: tuple[Unit, ...] = ("client", "record", "person")


def settings_of(method: str, **given: Any) -> Any:
    kind = get_method(method).settings
    return build(kind, fitting(kind, ALL | MODELS), given)


def client(
    method: str, settings: CommonSettings, folder: Path, client_id: int = 0, data: FederatedData = WORLD, **changes: Any
) -> BallotClient[Any]:
    workspace = Workspace(client_id, settings, data, ClientFolder(folder / str(client_id)), "cpu")
    return get_method(method).client_class(replace(workspace, **changes))


@dataclass(frozen=True)
class Case:
    """A method, its settings, the arrays of a request, and what its noise must be.

    ``expected(settings)``: standard deviation by part, from the mechanism alone. ``signal(settings, exact)``: what a
    part is before noise, in the units of the release.
    """

    method: str
    given: dict[str, Any]
    expected: Callable[[Any], dict[str, float]]
    signal: Callable[[Any, str, Any], np.ndarray]
    arrays: tuple[np.ndarray, ...] = (np.arange(QUERIES, dtype=np.int32),)
    first: int = 0  # column of the release from which on it is looked at


def share_of_votes(settings: Any) -> dict[str, float]:
    return {"votes": voting.mechanism(settings).share_sigma}


def share_of_logits(settings: Any) -> dict[str, float]:
    return {"logits": math.sqrt(fedkd.mechanism(settings, CLASSES).mechanism.share_variance)}


def share_of_counts(settings: Any) -> dict[str, float]:
    return {poll.PART[settings.unit]: poll.histogram(settings, CLASSES).share_sigma}


def of_heads(settings: Any) -> dict[str, float]:
    width, negatives = FEATURES + 1, round(settings.pretrain_share * QUERIES)
    found = {"classes": class_mechanism(settings, RECORDS, width, CLASSES).sigma}
    if settings.with_scores:
        found["scores"] = score_mechanism(settings, RECORDS + negatives, width).sigma
    return found


def by_class(settings: Any, part: str, exact: Any) -> np.ndarray:
    return class_sums(*exact, CLASSES)


def steps_by_class(settings: Any, part: str, exact: Any) -> np.ndarray:
    noisy = shared_mechanism(settings, CLASSES)
    return class_sums(*exact, CLASSES) * noisy.scale / noisy.mechanism.grid


CASES = {
    "votes": Case("pate-fl", {"sigma": 4.0}, share_of_votes, lambda s, part, exact: exact),
    "neighbours": Case(
        "private-knn-fl", {"sigma": 4.0, "k": 5, "extractor": "none"}, share_of_votes, lambda s, part, exact: exact
    ),
    "logits": Case(
        "fedkd-dp",
        {"logit_bound": 0.5, "epsilon": 100.0, "queries": QUERIES},
        share_of_logits,
        lambda s, part, exact: np.rint(clip_rows(exact, 0.5) / fedkd.mechanism(s, CLASSES).mechanism.grid),
    ),
    "predictions": Case(
        "fedmd-ldp",
        {"share": "logits", "logit_bound": 0.5, "epsilon": 1000.0, "rounds": 1, "pretrain_epochs": 0},
        lambda s: {"predictions": s.noisy_predictions(CLASSES).noisy.sigma},
        lambda s, part, exact: clip_rows(exact, 0.5),
    ),
    "predictions with Laplace noise": Case(
        "fedmd-ldp",
        {"share": "logits", "logit_bound": 0.5, "epsilon": 1000.0, "rounds": 1, "pretrain_epochs": 0}
        | {"noise": "laplace"},
        lambda s: {"predictions": math.sqrt(2) * s.noisy_predictions(CLASSES).noisy.scale},
        lambda s, part, exact: np.clip(exact, -0.5, 0.5),
    ),
    "heads": Case("fedauxfdp", {**HEADS, "head": "logistic"}, of_heads, lambda s, part, exact: exact.weights, ()),
    "head": Case("fedavg-p", {"extractor": "none", "epsilon": 4.0}, of_heads, lambda s, part, exact: exact.weights, ()),
    "class sums": Case(
        "fedauxfdp",
        {**HEADS, "embedding": "pca", "dimension": 6},
        lambda s: {"sums": math.sqrt(sums_mechanism(s, CLASSES, 6).variance)},
        by_class,
        (),
        1,  # the counts are projected
    ),
    "shares of class sums": Case(
        "fedauxfdp-sum",
        {"extractor": "none", "epsilon": 4.0, "dimension": 12, "records": 25},
        lambda s: {"sums": math.sqrt(shared_mechanism(s, CLASSES).mechanism.share_variance)},
        steps_by_class,
        (np.random.default_rng(2).normal(size=(12, FEATURES)).astype(np.float32),),
    ),
    "shares of class sums of either sign": Case(
        "fedauxfdp-sum",
        {"extractor": "none", "epsilon": 4.0, "embedding": "pca", "dimension": 6, "records": 25},
        lambda s: {"sums": math.sqrt(shared_mechanism(s, CLASSES).mechanism.share_variance)},
        steps_by_class,
        (),
    ),
    "counts": Case("poll", POLL, share_of_counts, lambda s, part, exact: exact, NEAR_OR_FAR),
    "shares of counts": Case(
        "poll", {**POLL, "unit": "client"}, share_of_counts, lambda s, part, exact: exact, NEAR_OR_FAR
    ),
}


@pytest.mark.parametrize("client_id", range(CLIENTS))
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_each_client_adds_all_of_its_noise_to_what_its_cost_speaks_of(
    case: Case, client_id: int, tmp_path: Path
) -> None:
    settings = settings_of(case.method, **case.given)
    one = client(case.method, settings, tmp_path, client_id)
    config = {"request": "run/1", "round": 1, "fingerprint": WORLD.public_fingerprint}
    _, _, metrics = one.fit(list(case.arrays), config)
    assert metrics["refused"] == "" and not one.failed, metrics
    question, expected = one.question(list(case.arrays), config), case.expected(settings)
    composition, exact = one.composition(question), one.exact(question)
    told = [Ledger(tmp_path / str(client_id) / "ledger").stored("run/1")]
    told += [
        one.drawn(question, composition) for _ in range(7)
    ]  # few numbers leave some clients: more draws see less noise
    for part, sigma in expected.items():
        noise = np.array([release[part] for release in told]) - case.signal(settings, part, exact[part])
        noise = noise[..., case.first :]
        # heads are projected: one class is a function of the others
        free = noise.size - noise[:, 0].size * (part in ("classes", "scores"))
        statistic = float((noise**2).sum() / sigma**2)
        if case.given.get("noise") == "laplace":  # magnitudes are exponential
            statistic, free = float(np.abs(noise).sum() * 2 * math.sqrt(2) / sigma), 2 * free
        assert 1e-6 < stats.chi2.cdf(statistic, free) < 1 - 1e-6, (part, statistic / free)
    assert told[0].keys() == expected.keys() and not one.failed


def test_blank_class_sums_and_heads_have_their_noise_too(tmp_path: Path) -> None:
    def fails() -> Examples:
        raise ValueError("patient 17")

    for name in ("heads", "class sums", "logits", "predictions", "votes", "neighbours", "shares of class sums"):
        case = CASES[name]
        one = client(case.method, settings_of(case.method, **case.given), tmp_path / name, read=fails)
        config = {"request": "run/1", "round": 1, "fingerprint": WORLD.public_fingerprint}
        arrays, _, metrics = one.fit(list(case.arrays), config)
        assert metrics["refused"] == "" and one.failed
        assert all(np.unique(array).size > 3 for array in arrays), name


def test_every_part_client_and_round_has_a_stream_of_seeded_noise_of_its_own(tmp_path: Path) -> None:
    seen = []
    for client_id in range(CLIENTS):
        heads = client("fedauxfdp", settings_of("fedauxfdp", noise_seed=1), tmp_path, client_id)
        seen += [heads.noise(part, None).words(2).tobytes() for part in ("classes", "scores", "sums")]
    assert len(set(seen)) == 3 * CLIENTS
    seen = []
    for client_id in range(CLIENTS):
        for number in (1, 2, 3):
            start = Start(number, np.zeros(1, np.float32))
            for method in ("fedmd-ldp", "dp-fedsgd"):
                chosen = settings_of(method, noise_seed=1, **(TORCH if method == "dp-fedsgd" else {}))
                one = client(method, chosen, tmp_path, client_id)
                seen.append((method, one.noise("predictions", start).words(2).tobytes()))
    assert len(set(seen)) == 6 * CLIENTS


# votes


def test_a_teacher_votes_on_as_many_queries_as_it_may_and_no_more(tmp_path: Path) -> None:
    for fraction, most in ((0.3, 12), (0.05, 2), (0.001, 1), (1.0, 40)):
        settings = settings_of("pate-fl", epsilon="inf", vote_fraction=fraction, abstain=False)
        assert settings.max_votes == most
        assert client("pate-fl", settings, tmp_path).exact(np.arange(QUERIES))["votes"].sum() == most


def test_neighbours_of_equal_distance_do_not_change_places(tmp_path: Path) -> None:
    """Replacing one record moves one vote of a query, also where many records are alike."""
    x, y = np.zeros((CLIENTS * RECORDS, FEATURES), np.float32), np.arange(CLIENTS * RECORDS) % CLASSES
    settings = settings_of("private-knn-fl", epsilon="inf", extractor="none", k=7)
    before = client("private-knn-fl", settings, tmp_path, data=world(private=Examples(x, y))).votes(np.arange(QUERIES))
    for place in (0, 3, 6, 7, RECORDS - 1):
        other = x.copy()
        other[place] = 9.0
        data = world(private=Examples(other, y))
        after = client("private-knn-fl", settings, tmp_path, data=data).votes(np.arange(QUERIES))
        assert np.abs(after - before).sum(axis=1).max() <= 2 and after.sum(axis=1).tolist() == [7] * QUERIES
    assert before.tolist() == [[3, 2, 2]] * QUERIES  # the first seven of all


def test_a_client_with_fewer_records_than_neighbours_counts_them_all(tmp_path: Path) -> None:
    settings = settings_of("private-knn-fl", epsilon="inf", extractor="none", k=7)
    data = world(parts=(np.arange(4), np.arange(RECORDS, 2 * RECORDS), np.arange(0)))
    one = client("private-knn-fl", settings, tmp_path, data=data)
    found, _, metrics = one.fit([np.arange(QUERIES)], {"request": "run/1", "round": 1, "fingerprint": "sha256:1"})
    assert metrics["refused"] == "" and found[0].tolist() == [[2, 1, 1]] * QUERIES


def test_votes_are_charged_by_the_ledgers_own_unit(tmp_path: Path) -> None:
    settings, queries = settings_of("pate-fl", sigma=4.0, vote_fraction=1.0), np.arange(QUERIES)
    reach: dict[Unit, float] = {}
    for unit in UNITS:
        ledger = Ledger(tmp_path / unit, Account("site 0", "its records", unit, ADJACENCY[unit], 1e4, 1e-3))
        one = client("pate-fl", settings, tmp_path / f"of {unit}", ledger=ledger, records_per_person=3)
        _, _, metrics = one.fit([queries], {"request": "run/1", "round": 1, "fingerprint": "sha256:1"})
        (cost,) = ledger.costs()
        assert metrics["refused"] == "" and isinstance(cost, IntegerCost)
        assert one.composition(queries).costs(unit, 3) == {"votes": cost}
        reach[unit] = cost.sensitivity
    replaced = math.sqrt(2 * QUERIES)
    assert reach == pytest.approx({"client": math.sqrt(QUERIES), "record": replaced, "person": replaced})


def test_neighbours_of_a_person_are_charged_by_how_many_records_one_has(tmp_path: Path) -> None:
    settings = settings_of("private-knn-fl", sigma=4.0, k=5, extractor="none")
    reach = []
    for records in (1, 3):
        ledger = Ledger(tmp_path / str(records), Account("s", "r", "person", ADJACENCY["person"], 1e4, 1e-3))
        one = client("private-knn-fl", settings, tmp_path / f"of {records}", ledger=ledger, records_per_person=records)
        one.fit([np.arange(QUERIES)], {"request": "run/1", "round": 1, "fingerprint": "sha256:1"})
        reach += [cost.sensitivity for cost in ledger.costs() if isinstance(cost, IntegerCost)]
    assert reach == pytest.approx([math.sqrt(2 * QUERIES), 3 * math.sqrt(2 * QUERIES)])


# predictions


def test_all_rounds_of_predictions_reach_the_target_and_are_charged(tmp_path: Path) -> None:
    settings = settings_of("fedmd-ldp", epsilon=2.0, rounds=3, share="logits")
    cost = client("fedmd-ldp", settings, tmp_path).composition(None).costs()["predictions"]
    assert 1.99 < accounting.epsilon([cost] * 4, settings.delta) <= 2.0


@pytest.mark.parametrize("noise", ["gaussian", "laplace"])
@pytest.mark.parametrize("share", ["logits", "softmax", "argmax"])
def test_no_predictions_move_further_than_is_paid_for(share: str, noise: str) -> None:
    settings = settings_of("fedmd-ldp", share=share, noise=noise, logit_bound=0.5, epsilon=100.0)
    told = settings.noisy_predictions(CLASSES)
    far = np.tile([1e3, 0, -1e3], (QUERIES, 1))
    moved, mechanism = told.bounded(far) - told.bounded(-far), told.noisy
    reach = float(np.linalg.norm(moved) if noise == "gaussian" else np.abs(moved).max())
    assert 0.99 * mechanism.sensitivity < reach <= mechanism.sensitivity * (1 + 1e-9)


# class sums and heads


@pytest.mark.parametrize("value", [np.nan, np.inf, 3e38])
@pytest.mark.parametrize("name", ["class sums", "heads"])
def test_one_record_that_is_no_number_fails_nothing(name: str, value: float, tmp_path: Path) -> None:
    case, x = CASES[name], WORLD.private.x.copy()
    x[4] = value
    data, settings = world(private=Examples(x, WORLD.private.y)), settings_of(case.method, **case.given)
    one = client(case.method, settings, tmp_path, data=data)
    _, _, metrics = one.fit([], {"request": "run/1", "round": 1, "fingerprint": "sha256:1"})
    assert metrics["refused"] == "" and not one.failed


def test_of_more_records_than_agreed_the_first_are_summed(tmp_path: Path) -> None:
    case = CASES["shares of class sums"]
    one = client(case.method, settings_of(case.method, **case.given), tmp_path)
    exact = one.exact(one.question(list(case.arrays), {"request": "run/1", "round": 1}))["sums"]
    assert len(exact[0]) == len(exact[1]) == 25
    assert np.allclose(np.linalg.norm(exact[0], axis=1), 1, atol=1e-5)


# samples


def nfdp(folder: Path, data: FederatedData = WORLD, **given: Any) -> NfdpClient:
    settings = settings_of("fedmd-nfdp", rounds=2, pretrain_epochs=0, **{"k": 10, **given})
    one = client("fedmd-nfdp", settings, folder, data=data)
    assert isinstance(one, NfdpClient)
    return one


def test_a_sample_is_drawn_once_charged_and_all_that_a_client_reads(tmp_path: Path) -> None:
    first, again = nfdp(tmp_path), nfdp(tmp_path)
    drawn = first.sample()
    assert len(drawn) == 10 and np.array_equal(again.sample(), drawn)
    for one in (first, again):
        assert np.array_equal(one.own().x, WORLD.private.x[drawn])
    assert Ledger(tmp_path / "0" / "ledger").costs() == [NfdpSample(RECORDS, 10).cost()]
    assert any(not np.array_equal(nfdp(tmp_path / str(n)).sample(), drawn) for n in range(3))


def test_seats_of_a_small_client_stay_empty(tmp_path: Path) -> None:
    one = nfdp(tmp_path, min_size=1000, k=500)
    assert one.sampling == one.composition(None).parts["sample"] == NfdpSample(1000, 500)
    drawn = one.sample()
    assert len(drawn) == 500 and drawn.max() > 900
    assert len(one.own()) == (drawn < RECORDS).sum() < 100
    assert Ledger(tmp_path / "0" / "ledger").costs() == [NfdpSample(1000, 500).cost()]


def test_a_sample_of_another_size_at_the_same_price_is_another_question(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, Account("site 0", "its records", "record", "add-remove", 1.0, 0.9))
    sample_once(ledger, NfdpSample(100, 10), os_noise(), DeltaCost(0.5))
    for other in (NfdpSample(101, 10), NfdpSample(100, 9), NfdpSample(100, 10, replacement=False)):
        with pytest.raises(RequestError, match="another question"):
            sample_once(ledger, other, os_noise(), DeltaCost(0.5))


def test_what_a_site_is_charged_for_its_sample_does_not_tell_its_number_of_records(tmp_path: Path) -> None:
    one = nfdp(tmp_path, min_size=20)
    ledger = Ledger(tmp_path / "own", Account("site 0", "its records", "record", "add-remove", 1.0, 0.9))
    settings = replace(one.workspace.settings, dataset=SITES)
    site = NfdpClient(replace(one.workspace, settings=settings, ledger=ledger))
    assert site.sampling == NfdpSample(RECORDS, 10) and len(site.sample()) == 10
    assert ledger.costs() == [NfdpSample(20, 10).cost()] == list(site.composition(None).costs().values())


# steps and differences


class Noting:
    """A learner of 50 weights that notes which batches it is given, and what is made of gradients."""

    def __init__(self) -> None:
        self.batches: list[np.ndarray] = []

    def get_weights(self) -> list[np.ndarray]:
        return [np.zeros(50, np.float32)]

    def sgd_steps(self, x: np.ndarray, y: np.ndarray, batches: Any, combine: Callable[..., np.ndarray]) -> None:
        assert len(x) == len(y) == RECORDS
        self.batches, self.combine = list(batches), combine


def noting(folder: Path, client_id: int = 0, number: int = 1, **given: Any) -> Noting:
    settings = settings_of("dp-fedsgd", **TORCH, **{"clip": 0.5, "noise_multiplier": 2.0, "batch_size": 10, **given})
    one, learner = client("dp-fedsgd", settings, folder, client_id), Noting()
    assert isinstance(one, DpFedsgdClient)
    one.train(learner, number)  # type: ignore[arg-type]
    return learner


def test_each_record_is_in_a_batch_by_its_own_chance(tmp_path: Path) -> None:
    steps = noting(tmp_path, rate=0.2, epochs=100).batches
    assert len(steps) == 500
    there = np.zeros((500, RECORDS))
    for step, batch in enumerate(steps):
        assert np.unique(batch).size == batch.size
        there[step, batch] = 1
    each = there.sum(axis=0)  # of 500
    assert stats.binomtest(int(there.sum()), there.size, 0.2).pvalue > 1e-6
    assert min(stats.binomtest(int(n), 500, 0.2).pvalue for n in each) > 1e-7
    sizes = there.sum(axis=1)
    assert 1e-6 < stats.chi2.cdf(499 * sizes.var(ddof=1) / (RECORDS * 0.2 * 0.8), 499) < 1 - 1e-6
    together = np.corrcoef(there.T)[np.triu_indices(RECORDS, 1)]
    assert np.abs(together).max() < 0.3  # 500 steps: 0.045 of one standard deviation


def test_gradients_are_cut_one_by_one_before_they_are_added_up(tmp_path: Path) -> None:
    combine = noting(tmp_path, noise_multiplier=0.02, clip=1.0).combine
    one, other = np.zeros((2, 50))
    one[0], other[1] = 100.0, 0.25
    moved = combine(np.stack([one, one, one, other])) * 10  # batch_size
    assert moved[:2] == pytest.approx([3.0, 0.25], abs=0.2)
    assert np.linalg.norm(moved[2:]) < 0.5


def test_each_step_has_all_of_its_noise(tmp_path: Path) -> None:
    combine = noting(tmp_path).combine
    drawn = np.array([combine(np.zeros((0, 50))) for _ in range(10)]) * 10
    assert 1e-6 < stats.chi2.cdf(float((drawn**2).sum()) / 1.0, 500) < 1 - 1e-6  # multiplier 2 of clip 0.5


def test_noise_of_rounds_and_clients_is_not_the_same(tmp_path: Path) -> None:
    seen = {
        noting(tmp_path, client_id, number, noise_seed=1).combine(np.zeros((0, 50))).tobytes()
        for client_id in range(2)
        for number in (1, 2)
    }
    assert len(seen) == 4


def test_a_blank_round_has_the_noise_of_all_its_steps(tmp_path: Path) -> None:
    settings = settings_of("dp-fedsgd", **TORCH, clip=0.5, noise_multiplier=2.0, batch_size=10, rate=0.1, epochs=2)
    start = Start(1, np.zeros(500, np.float32))
    told = client("dp-fedsgd", settings, tmp_path).blank(start)["difference"] / (settings.lr / 10)
    assert settings.steps == 20
    assert 1e-6 < stats.chi2.cdf(float((told**2).sum()) / 20, 500) < 1 - 1e-6


def test_a_round_of_steps_is_charged_with_all_of_them_and_their_sampling(tmp_path: Path) -> None:
    settings = settings_of("dp-fedsgd", **TORCH, noise_multiplier=2.0, rate=0.1, epochs=2)
    one, start = client("dp-fedsgd", settings, tmp_path), Start(1, np.zeros(500, np.float32))
    cost = one.composition(start).costs()["difference"]
    assert isinstance(cost, PoissonCost)
    assert (cost.q, cost.steps) == (0.1, 20) and 1.99 < cost.multiplier < 2


def test_a_client_that_is_drawn_is_charged_as_if_it_always_were(tmp_path: Path) -> None:
    settings = settings_of("dp-fedavg", **TORCH, noise_multiplier=2.0, participation=0.25)
    one, start = client("dp-fedavg", settings, tmp_path), Start(1, np.zeros(500, np.float32))
    assert isinstance(one, DpFedavgClient)
    cost = one.composition(start).costs()["difference"]
    assert isinstance(cost, GaussianCost) and cost.count == 1 and 0.5 < cost.mu < 0.503


@pytest.mark.parametrize(("method", "given"), [("dp-fedavg", TORCH), ("pate-fl", {"sigma": 4.0})])
def test_answers_that_only_their_sum_protects_do_not_leave_a_site_in_the_clear(
    method: str, given: dict[str, Any], tmp_path: Path
) -> None:
    def never() -> Examples:
        raise AssertionError("read")

    ledger = Ledger(tmp_path / "own", Account("site 0", "its records", "client", "zero-out", 1e4, 1e-3))
    one = client(method, settings_of(method, **given), tmp_path, ledger=ledger, masks_only=True, read=never)
    asked = np.arange(QUERIES)
    if isinstance(one, DpFedavgClient):
        asked = flatten(one.learner(1).get_weights())
    arrays, _, metrics = one.fit([asked], {"request": "run/1", "round": 1, "fingerprint": WORLD.public_fingerprint})
    assert (arrays, metrics["refused"]) == ([], "policy") and "trusted server" in metrics["detail"]
    assert ledger.costs() == []
