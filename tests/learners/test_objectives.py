"""Objectives: those that come with fedballot, those of another package, and several at once."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from fedballot.core.errors import SettingsError
from fedballot.learners.base import Learner
from fedballot.learners.checks import IntArray
from fedballot.learners.objectives import Abstain, DomainAdversarial, Objective, Proximal, Records, combined
from fedballot.learners.registry import make_learner

THEIR_PACKAGE = '''
"""Objectives of somebody else."""

from dataclasses import dataclass

from fedballot.learners.objectives import Objective
from fedballot.learners.terms import Term


@dataclass(frozen=True)
class LabelSmoothing(Objective):
    share: float

    def terms(self, model):
        return (Smooth(self.share),)


class Smooth(Term):
    def __init__(self, share):
        super().__init__()
        self.share = share

    def loss(self, step):
        return -self.share * step.logits.log_softmax(1).mean()


class Anchor:
    """The proximal term as a loss; not even derived from Objective."""

    needs_gradients = True

    def __init__(self, mu):
        self.mu = mu

    def records(self, n_classes):
        return ()

    def terms(self, model):
        return (Near(model.net, self.mu),)


class Near(Term):
    def __init__(self, net, mu):
        super().__init__()
        self.net, self.mu = [net], mu
        self.start = [p.detach().clone() for p in net.parameters()]

    def loss(self, step):
        pairs = zip(self.net[0].parameters(), self.start)
        return self.mu / 2 * sum(((p - q) ** 2).sum() for p, q in pairs)
'''


@pytest.fixture
def theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "their_objectives.py").write_text(THEIR_PACKAGE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "their_objectives", raising=False)
    return importlib.import_module("their_objectives")


def learner(name: str = "mlp-torch", **over: Any) -> Learner:
    options = {"n_classes": 3, "input_shape": (8, 8), "seed": 0, "epochs": 10, "batch_size": 16, "lr": 3e-3}
    return make_learner(name, **{**options, **over})


def data(n: int = 90) -> tuple[np.ndarray, IntArray]:
    """Grey images with one bright pixel, whose place is the class."""
    y = np.arange(n) % 3
    x = np.random.default_rng(0).integers(0, 60, (n, 8, 8))
    x[np.arange(n), y] += 150
    return x.astype(np.uint8), y.astype(np.int64)


X, Y = data()


def moved(one: Learner, objective: Objective | None) -> list[np.ndarray]:
    """By how much training changes the weights."""
    start = one.get_weights()
    one.fit(X, Y, objective=objective)
    return [a - b for a, b in zip(one.get_weights(), start, strict=True)]


def test_an_objective_of_another_package_changes_what_is_learned(theirs: Any) -> None:
    plain, smooth = (learner().fit(X, Y, objective=objective) for objective in (None, theirs.LabelSmoothing(share=1.0)))
    spread = [np.ptp(one.predict_logits(X), axis=1).mean() for one in (plain, smooth)]
    assert spread[1] < 0.7 * spread[0]
    assert (smooth.predict_logits(X).argmax(axis=1) == Y).mean() > 0.9


def test_the_proximal_term_is_the_gradient_of_half_mu_times_the_squared_distance(theirs: Any) -> None:
    assert isinstance(theirs.Anchor(1.0), Objective)
    one, other = learner(lr=1e-3), learner(lr=1e-3)
    built_in, by_hand = moved(one, Proximal(one.get_weights(), 2.0)), moved(other, theirs.Anchor(2.0))
    free = moved(learner(lr=1e-3), None)
    for a, b, c in zip(built_in, by_hand, free, strict=True):
        np.testing.assert_allclose(a, b, atol=0.02 * np.abs(c).max())
    assert np.linalg.norm(built_in[0]) < 0.7 * np.linalg.norm(free[0])


def test_the_proximal_term_pulls_towards_the_weights_that_it_is_given() -> None:
    """Not towards those that training starts from: with a large mu the distance to them shrinks."""
    one = learner(epochs=40, lr=1e-2)
    point = [w + np.float32(0.05) for w in one.get_weights()]
    one.fit(X, Y, objective=Proximal(point, 1000.0))
    assert max(np.abs(w - p).max() for w, p in zip(one.get_weights(), point, strict=True)) < 0.02


def test_two_terms_at_once_each_do_what_they_do_alone(theirs: Any) -> None:
    one, other = learner(lr=1e-3), learner(lr=1e-3)
    near = Proximal(one.get_weights(), 2.0)
    both = moved(one, combined(near, theirs.LabelSmoothing(1.0)))
    alone = moved(other, near)
    assert not np.array_equal(both[0], alone[0])
    assert np.linalg.norm(both[0]) < 0.7 * np.linalg.norm(moved(learner(lr=1e-3), None)[0])
    two = combined(DomainAdversarial(255 - X, 0.3), DomainAdversarial(X // 2, 0.3))
    assert (learner(epochs=20).fit(X, Y, objective=two).predict_logits(X).argmax(axis=1) == Y).mean() > 0.9


def test_nothing_and_one_need_no_combination() -> None:
    only = Abstain(X)
    assert combined() is None and combined(None, None) is None
    assert combined(None, only) is only


class WithPublicLabels(Objective):
    """Public records of class 2, which the client itself has never seen."""

    needs_gradients = False

    def records(self, n_classes: int) -> list[Records]:
        return [Records(X[Y == 2], Y[Y == 2])]


@pytest.mark.parametrize("name", ["mlp-torch", "logistic-regression", "random-forest"])
def test_records_of_an_objective_teach_a_class_that_the_own_ones_lack(name: str) -> None:
    own = Y < 2
    right = []
    for objective in (None, WithPublicLabels()):
        one = learner(name, epochs=30).fit(X[own], Y[own], objective=objective)
        assert one.predict_logits(X).shape == (90, 3)
        right.append((one.predict_logits(X).argmax(axis=1) == Y).mean())
    assert right[0] < 0.7 and right[1] > 0.9


@pytest.mark.parametrize("name", ["mlp-torch", "logistic-regression"])
def test_abstaining_goes_with_others_and_adds_one_class(name: str) -> None:
    one = learner(name).fit(X, Y, objective=combined(Abstain(255 - X), WithPublicLabels()))
    assert one.predict_logits(X).shape == (90, 4)


class Wrong(Objective):
    needs_gradients = False

    def __init__(self, records: Records) -> None:
        self._records = records

    def records(self, n_classes: int) -> list[Records]:
        return [self._records]


@pytest.mark.parametrize("name", ["mlp-torch", "logistic-regression"])
@pytest.mark.parametrize(
    ("records", "words"),
    [
        (Records(X[:, :4], Y), "objective's x has shape"),
        (Records(X, Y + 2), r"objective's y\[2\] is 4"),
        (Records(X, Y[:4]), "objective's y has shape"),
        (Records(X[:0], Y[:0]), "empty"),
    ],
)
def test_wrong_records_of_an_objective_are_refused(name: str, records: Records, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        learner(name).fit(X, Y, objective=Wrong(records))


def test_objectives_refuse_what_they_cannot_work_with() -> None:
    with pytest.raises(SettingsError, match="Abstain: the pool is empty"):
        Abstain(X[:0])
    with pytest.raises(SettingsError, match="DomainAdversarial: target is empty"):
        DomainAdversarial(X[:0], 1.0)
    with pytest.raises(SettingsError, match="objective's x has shape"):
        learner().fit(X, Y, objective=DomainAdversarial(X[:, :4], 1.0))
    with pytest.raises(SettingsError, match="hidden layer"):
        learner("linear-torch").fit(X, Y, objective=DomainAdversarial(X, 1.0))
    with pytest.raises(SettingsError, match="Proximal: the network has weights of shapes"):
        learner().fit(X, Y, objective=Proximal([np.zeros(3, np.float32)], 1.0))
    with pytest.raises(SettingsError, match="which Abstain \\+ Proximal needs"):
        learner("knn").fit(X, Y, objective=combined(Abstain(X), Proximal([], 1.0)))
