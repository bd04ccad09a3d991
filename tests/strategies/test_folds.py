"""Answers are combined as they come: the same bits in any order, those of the lists they once were, in flat memory."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedballot.core.errors import RunError
from fedballot.core.progress import Silent
from fedballot.core.setting import names_of
from fedballot.distillation.aggregation import Sum, VectorMean, WeightedMean, class_weights
from fedballot.methods.registry import all_methods, get_method
from fedballot.runs.engine import federated_data, new_strategy
from fedballot.runs.trial import Trial
from fedballot.settings.fedkd import FedkdSettings
from fedballot.settings.fedmd import FedmdSettings
from fedballot.settings.voting import PateSettings
from fedballot.strategies.folds import Fold, InOrder
from fedballot.strategies.shelf import Answer, Shelf
from fedballot.wire.messages import Reply, serialise
from tests.conftest import small_settings
from tests.test_testing import QUICK, SLOW

CLIENTS = 6
ORDERS = {"as asked": [0, 1, 2, 3, 4, 5], "backwards": [5, 4, 3, 2, 1, 0], "any": [3, 5, 0, 2, 4, 1]}
MANY = [
    pytest.param(name, marks=pytest.mark.slow if name in SLOW else ())
    for name, method in all_methods().items()
    if name in {**QUICK, **SLOW} and not method.single_client
]


@pytest.fixture(params=["in memory", "on file"])
def shelf_room(request, monkeypatch) -> None:
    """Waiting answers are in memory, or all in a file."""
    if request.param == "on file":
        monkeypatch.setattr(Shelf, "in_memory", 0)


# sums, as they were made of lists


def old_average(
    ballots: Iterable[np.ndarray], weights: Iterable[float | np.ndarray], shape: tuple[int, int]
) -> np.ndarray:
    total, mass = np.zeros(shape), np.zeros((shape[0], 1))
    for ballot, weight in zip(ballots, weights, strict=True):
        column = np.broadcast_to(np.asarray(weight, dtype=np.float64), (shape[0],))[:, None]
        total += column * ballot
        mass += column
    return total / mass


def old_vectors(vectors: Sequence[np.ndarray], weights: Sequence[float]) -> np.ndarray:
    total, mass = None, 0.0
    for vector, weight in zip(vectors, weights, strict=True):
        total = weight * vector.astype(np.float64) + (0.0 if total is None else total)
        mass += weight
    return total / mass


def in_any_order(add: Any, ballots: Sequence[np.ndarray], order: Sequence[int], folder: Path | None = None) -> None:
    """Let the answers come in this order."""
    turn = InOrder(add, range(len(ballots)), Shelf(folder))
    for number in order:
        turn.put(Answer(int(number), ballots[number], 0.0, 0.0))
    turn.finish()


def give(mean: WeightedMean | VectorMean, weights: Sequence[Any], answer: Answer) -> None:
    mean.add(answer.ballot, weights[answer.client_id])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("weighted", ["equal", "size", "query"])
def test_an_average_has_the_bits_that_it_had(dtype, weighted, shelf_room, tmp_path) -> None:
    rng = np.random.default_rng(1)
    ballots = (rng.normal(size=(40, 30, 7)) * 10.0 ** rng.integers(-12, 3, (40, 30, 7))).astype(dtype)
    ballots[:, 0, 0] = -0.0
    sizes = {"equal": np.ones(40), "size": rng.integers(1, 900, 40).astype(float), "query": rng.uniform(size=(40, 30))}
    weights = [float(one) if np.ndim(one) == 0 else one for one in sizes[weighted]]
    wanted = old_average(ballots, weights, (30, 7)).tobytes()
    different = 0
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(40)
        mean, hasty = WeightedMean((30, 7)), WeightedMean((30, 7))
        in_any_order(partial(give, mean, weights), ballots, order, tmp_path)
        assert mean.value().tobytes() == wanted
        for number in order:
            hasty.add(ballots[number], weights[number])
        different += hasty.value().tobytes() != wanted
    assert different or (dtype is np.float16 and weighted != "query")  # these sums are exact: any order will do


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sized", [False, True])
def test_an_average_of_weights_has_the_bits_that_it_had(dtype, sized, shelf_room, tmp_path) -> None:
    rng = np.random.default_rng(2)
    vectors = rng.normal(size=(40, 500)).astype(dtype)
    vectors[:, 0] = -0.0
    sizes = [float(one) for one in rng.integers(1, 900, 40)] if sized else [1.0] * 40
    for seed in range(5):
        mean, order = VectorMean(), np.random.default_rng(seed).permutation(40)
        in_any_order(partial(give, mean, sizes), vectors, order, tmp_path)
        assert mean.value().tobytes() == old_vectors(vectors, sizes).tobytes()


def test_votes_are_added_as_they_come() -> None:
    rng = np.random.default_rng(3)
    ballots = rng.integers(-(2**30), 2**30, (40, 30, 7)).astype(np.int32)
    votes = Sum((30, 7))
    for ballot in rng.permutation(ballots):
        votes.add(ballot)
    assert np.array_equal(votes.total, ballots.astype(np.int64).sum(axis=0))


# the order


@pytest.mark.parametrize("absent", [(), (0,), (2, 3)])
@pytest.mark.parametrize("told", [False, True])
def test_answers_are_handed_on_sorted_and_as_soon_as_can_be(absent, told, shelf_room, tmp_path) -> None:
    for order in permutations(range(5)):
        seen: list[int] = []
        turn = InOrder(lambda answer, seen=seen: seen.append(int(answer.ballot[0])), range(5), Shelf(tmp_path))
        gone: set[int] = set()
        for number in order:
            if number not in absent:
                turn.put(Answer(number, np.array([number]), 0.0, 0.0))
            elif told:
                turn.skip(number)
            if number not in absent or told:
                gone.add(number)
            waited_for = next((one for one in range(5) if one not in gone), 5)
            assert seen == [one for one in range(waited_for) if one not in absent]
        turn.finish()
        assert seen == [one for one in range(5) if one not in absent]


def test_a_shelf_holds_what_was_put_there_and_little_of_it_in_memory(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(Shelf, "in_memory", 3 * 8000)
    rng = np.random.default_rng(4)
    ballots = {int(number): rng.normal(size=(100, 10)) for number in rng.permutation(50)}
    shelf = Shelf(tmp_path)
    tracemalloc.start()
    for number, ballot in ballots.items():
        shelf.put(Answer(number, ballot.copy(), 1.5, 2.5, f"node-{number}"))
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 10 * 8000 and not list(tmp_path.iterdir())  # its file has no name: it goes with the process
    assert shelf.clients == list(range(50)) == [answer.client_id for answer in shelf]
    assert all(np.array_equal(answer.ballot, ballots[answer.client_id]) for answer in shelf)
    assert (shelf[7].cid, shelf[7].compute_s, shelf[7].began) == ("node-7", 1.5, 2.5)
    assert [answer.client_id for answer in shelf[2:5]] == [2, 3, 4]
    for number in (9, 3, 41):
        assert np.array_equal(shelf.pop(number).ballot, ballots[number])
    assert len(shelf) == 47 and not shelf.has(9) and shelf.has(10)
    for number in shelf.clients:
        assert np.array_equal(shelf.pop(number).ballot, ballots[number])
    shelf.put(Answer(1, ballots[1], 0.0, 0.0))
    assert np.array_equal(shelf[0].ballot, ballots[1])


# whole methods


@pytest.fixture(scope="module")
def answered(tmp_path_factory) -> Any:
    """Real answers of a method's first round, and where it was."""
    found: dict[str, tuple[Trial, list[Reply]]] = {}

    def of(name: str) -> tuple[Trial, list[Reply]]:
        if name not in found:
            changes = {**QUICK, **SLOW}[name] | {"clients": CLIENTS, "private_size": 60 * CLIENTS}
            trial = Trial(get_method(name), changes, tmp_path_factory.mktemp(name), "order")
            trial.settings = trial.seeded(1)
            replies = []
            for request in trial.requests(trial.server("run")):
                arrays, metrics = trial.fit(trial.client(int(request.to)), request)
                assert metrics["refused"] == ""
                replies.append(Reply(request.to, serialise(arrays), metrics))
            found[name] = trial, replies
        return found[name]

    return of


def ended(trial: Trial, replies: Sequence[Reply], name: str, *, numbered: bool = True) -> dict[str, bytes]:
    """What a server knows after a round in which these replies came, in this order."""
    strategy = trial.server(name).strategy
    strategy.numbers = {str(number): number for number in range(CLIENTS)} if numbered else {}
    strategy.ask(1, [str(number) for number in range(CLIENTS)])
    for reply in replies:
        strategy.receive(reply)
    for _ in range(CLIENTS - len(replies)):
        strategy.miss("gone")
    strategy.conclude(1)
    kept = dict(strategy.state() or {})
    if not kept or kept.pop("student", None) is not None:  # a scikit-learn model's file holds addresses
        kept["metrics"] = np.array(json.dumps(strategy.outcome()["metrics"]))
    return {key: array.tobytes() for key, array in kept.items()}


@pytest.mark.parametrize("name", MANY)
def test_a_round_ends_with_the_same_bits_whoever_answers_first(name, answered, shelf_room, tmp_path) -> None:
    trial, replies = answered(name)
    wanted = ended(trial, replies, f"{tmp_path.name}-first")
    for words, order in ORDERS.items():
        for numbered in (True, False):
            found = ended(trial, [replies[i] for i in order], f"{tmp_path.name}-{words}-{numbered}", numbered=numbered)
            assert found == wanted
    some = [replies[i] for i in (1, 3, 4, 5)]
    if "min_clients" in names_of(type(trial.settings)) and trial.settings.min_clients <= len(some):
        first, second = (ended(trial, these, f"{tmp_path.name}-{i}") for i, these in enumerate((some, some[::-1])))
        assert first == second != wanted


def strategy_of(method: str, kind: type, **changes: Any) -> Any:
    settings = small_settings(kind, changes)
    data = federated_data(settings)
    return new_strategy(get_method(method), settings, data, request_id="run", progress=Silent())


def reply_of(number: int, arrays: list[np.ndarray], **metrics: Any) -> Reply:
    return Reply(str(number), serialise(arrays), {"client_id": number, "refused": "", "detail": "", **metrics})


def test_bad_answers_are_dropped_with_the_same_reasons_in_any_order() -> None:
    good = np.zeros((300, 10), np.int8)
    replies = [
        *(reply_of(number, [good]) for number in range(8)),
        reply_of(8, [good[:-1]]),
        reply_of(9, [good.astype(np.float32)]),
        reply_of(10, [good, good]),
        reply_of(11, [], refused="empty", detail="no records"),
        Reply("12", serialise([good]), {"client_id": 3, "refused": "", "detail": ""}),
        Reply("13", [b"nothing"], {"client_id": 13, "refused": "", "detail": ""}),
    ]
    reasons = {"shape": 1, "dtype": 1, "count": 1, "empty": 1, "duplicate": 1, "unreadable": 1, "no answer": 2}
    for seed in range(4):
        one = strategy_of("pate-fl", PateSettings, clients=16, min_clients=8)
        one.ask(1, [str(number) for number in range(16)])
        for place in np.random.default_rng(seed).permutation(len(replies)):
            one.receive(replies[place])
        one.miss("the node\n is gone")
        one.miss("the node is gone")
        one.conclude(1)
        assert dict(one.counts.rejected) == reasons
        assert (one.counts.answered, one.counts.messages) == (8, 16 + len(replies))
        assert one.counts.first_details["no answer"] == "the node is gone"
        assert one.round_records[0]["asked"] == 16 and one.round_records[0]["answered"] == 8
        assert one.counts.bytes_up == sum(len(tensor) for reply in replies for tensor in reply.tensors)


def test_too_few_good_answers_leave_no_round_behind() -> None:
    one = strategy_of("fedmd", FedmdSettings, clients=8, min_clients=3)
    one.ask(1, [str(number) for number in range(8)])
    one.receive(reply_of(0, [np.ones((2, 2))]))
    with pytest.raises(RunError, match="only 0 of 1 clients gave a good answer in round 1"):
        one.conclude(1)
    assert one.consensus is None and not one.round_records


def test_fedkd_has_its_old_bits(shelf_room) -> None:
    one = strategy_of("fedkd", FedkdSettings, clients=8, gamma="inf", levels=256)
    rng = np.random.default_rng(5)
    ballots = [np.vstack([rng.integers(1, 90, 10), rng.normal(size=one.shape)]).astype(np.float32) for _ in range(8)]
    weights = class_weights(np.array([ballot[0] for ballot in ballots]).astype(np.int64))
    total = np.zeros(one.shape)
    for ballot, weight in zip(ballots, weights, strict=True):
        total += weight * ballot[1:]
    one.fold(1).of([Answer(number, ballots[number], 0.0, 0.0) for number in rng.permutation(8).tolist()])
    assert one.state()["consensus"].tobytes() == total.tobytes()


# memory


def peak(fold: Fold[Any], shape: tuple[int, int], count: int, order: Sequence[int]) -> int:
    """Bytes that were in use at once while so many float32 answers came, each made when it comes."""
    turn = InOrder(fold.add, range(count), Shelf()) if fold.ordered else None
    add = turn.put if turn else fold.add
    tracemalloc.start()
    for number in order:
        add(Answer(int(number), np.full(shape, number, np.float32 if fold.ordered else np.int32), 0.0, 0.0))
    if turn:
        turn.finish()
    fold.value()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


@pytest.mark.parametrize("order", ["as asked", "backwards"])
@pytest.mark.parametrize("kind", ["votes", "predictions"])
def test_memory_is_that_of_a_few_answers_however_many_come(kind, order, monkeypatch) -> None:
    shape, count = (2000, 10), 60
    monkeypatch.setattr(Shelf, "in_memory", 4 * 20_000)

    def fold() -> Fold[Any]:
        if kind == "votes":
            votes = Sum(shape)
            return Fold(lambda answer: votes.add(answer.ballot), lambda: votes.total, ordered=False)
        mean = WeightedMean(shape)
        return Fold(lambda answer: mean.add(answer.ballot, 2.0), mean.value)

    for clients in (count // 4, count):
        numbers = range(clients) if order == "as asked" else range(clients - 1, -1, -1)
        # the sum, a product and an answer; all of them together are 15 and 60 answers of 4 bytes a number
        assert peak(fold(), shape, clients, numbers) < 5 * 8 * 20_000
