"""DS-FL and Selective-FD: what the server makes of answers, and what it sends back."""

import numpy as np
import pytest

from fedballot.clients.selective import ballot
from fedballot.core.setting import build
from fedballot.methods.registry import get_method
from fedballot.runs.engine import federated_data, new_strategy
from fedballot.settings.selective import SelectiveSettings
from fedballot.strategies.base import Answer
from fedballot.strategies.selective import sharpen

DIGITS = {"dataset": "digits", "clients": 2, "private_size": 100, "public_size": 60, "test_size": 50, "queries": 4}
MEAN = np.array([[0.5, 0.3, 0.2], [0.34, 0.33, 0.33]])


def entropy(rows: np.ndarray) -> np.ndarray:
    return -(rows * np.log(rows)).sum(axis=1)


@pytest.mark.parametrize("temperature", [0.05, 0.1, 0.3])
def test_a_low_temperature_takes_entropy_away_and_keeps_the_order(temperature: float) -> None:
    sharp = sharpen(MEAN, temperature)
    assert sharp.sum(axis=1) == pytest.approx(1)
    assert (sharp.argsort(axis=1) == MEAN.argsort(axis=1)).all()
    assert (entropy(sharp) < entropy(MEAN)).all()


def test_the_ratio_of_two_classes_is_that_of_equation_15() -> None:
    sharp = sharpen(MEAN, 0.1)
    assert sharp[0, 0] / sharp[0, 1] == pytest.approx(np.exp((0.5 - 0.3) / 0.1))


def strategy(**values):
    settings = build(SelectiveSettings, DIGITS, {"share": "argmax", **values})
    return new_strategy(get_method("selective-fd"), settings, federated_data(settings), request_id="r")


def answers(one, *labels):
    """Answers of clients: a class for each of four records, None where it says nothing."""
    out = []
    for client_id, row in enumerate(labels):
        rows = np.eye(10)[[label or 0 for label in row]]
        arrays = ballot(one.settings, (4, 10)).pack((np.array([label is not None for label in row]), rows))
        out.append(Answer(client_id, one.read(arrays), 0, 0))
    return out


def test_only_those_who_answer_count_and_only_clear_records_go_back():
    one = strategy()
    metrics = one.combine(1, answers(one, [3, 5, None, None], [None, 6, None, 7]))
    asked = one.queries(1)
    assert one.kept.tolist() == asked[[0, 3]].tolist()  # two clients disagree about the second, none knows the third
    assert one.consensus.tolist() == np.eye(10)[[3, 7]].tolist()
    assert metrics["answered_share"] == 0.75 and metrics["kept_share"] == 0.5
    truth = one.data.public_y[one.kept]
    assert metrics["consensus_accuracy"] == float(np.mean(truth == [3, 7]))
    sent = one.request(2)
    assert sent[1].tolist() == one.kept.tolist() and sent[2].shape == (2, 10)


@pytest.mark.parametrize(("measure", "limit", "kept"), [("entropy", 0.31, 3), ("entropy", 0.3, 2), ("l2", 0.75, 3)])
def test_a_limit_lets_two_even_classes_through_or_not(measure, limit, kept):
    one = strategy(ambiguity=measure, ambiguity_limit=limit)
    one.combine(1, answers(one, [3, 5, None, None], [None, 6, None, 7]))
    assert len(one.kept) == kept


def test_nothing_clear_is_a_round_like_any_other_and_a_checkpoint_holds_it():
    one = strategy()
    metrics = one.combine(1, answers(one, [None] * 4, [None] * 4))
    assert metrics == {"consensus_accuracy": None, "answered_share": 0.0, "kept_share": 0.0}
    another = strategy()
    another.restore(one.state())
    first, second = one.request(2), another.request(2)
    assert [a.tolist() for a in first] == [a.tolist() for a in second] and first[1].size == 0


def test_with_all_answers_and_no_limit_it_is_fedmd():
    one = strategy(ambiguity_limit=1.0)
    labels = [[3, 5, 1, 2], [4, 5, 1, 7]]
    one.combine(1, answers(one, *labels))
    settings = {**DIGITS, "share": "argmax", "pretrain_epochs": 0}
    method = get_method("fedmd")
    other = new_strategy(method, build(method.settings, settings), one.data, request_id="r")
    other.combine(1, [Answer(i, np.eye(10, dtype=np.int32)[row], 0, 0) for i, row in enumerate(labels)])
    assert np.array_equal(one.consensus, other.consensus)
    assert all(np.array_equal(a, b) for a, b in zip(one.request(2), other.request(2), strict=True))
