"""Gradients of single records, group norm, and domain-adversarial training."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedballot.core.errors import DataError, SettingsError
from fedballot.learners import nets, training
from fedballot.learners.domain import DomainAdversary
from fedballot.learners.objectives import DomainAdversarial, Proximal
from fedballot.learners.registry import make_learner
from fedballot.learners.terms import Step
from fedballot.privacy.mechanisms.subsampled import SubsampledGaussian
from fedballot.privacy.noise.samplers import grid_sensitivity


def learner(name="mlp-torch", shape=(8, 8), **over):
    asked = {"n_classes": 4, "seed": 0, "epochs": 3, "batch_size": 16, "lr": 3e-3, **over}
    return make_learner(name, input_shape=shape, **asked)


def data(n=120, shift=0, seed=0):
    """Images with one bright quarter, which is the class; ``shift`` is another brightness of all else."""
    generator = np.random.default_rng(seed)
    y = generator.integers(0, 4, n)
    x = generator.integers(0, 60, (n, 8, 8)) + shift
    for row, label in enumerate(y):
        x[row, 4 * (label // 2) :, 4 * (label % 2) :][:4, :4] += 90
    return x.astype(np.uint8), y.astype(np.int64)


@pytest.mark.parametrize("name", ["cnn-small", "cnn-gn", "resnet8-gn", "mlp-torch"])
def test_weights_go_out_and_in(name):
    x, y = data()
    one = learner(name).fit(x, y)
    other = learner(name, seed=1).set_weights(one.get_weights())
    np.testing.assert_allclose(other.predict_logits(x), one.predict_logits(x), atol=1e-5)
    fresh = learner(name, seed=0).get_weights()
    assert all(np.array_equal(a, b) for a, b in zip(fresh, learner(name, seed=0).get_weights(), strict=True))
    with pytest.raises(DataError, match="shapes"):
        other.set_weights(one.get_weights()[1:])
    with pytest.raises(DataError, match="NaN"):
        other.set_weights([w * np.nan for w in one.get_weights()])


def test_group_norm_stands_where_batch_norm_stood():
    net = nets.builder("resnet8-gn", (8, 8))(4)
    kinds = [type(module).__name__ for module in net.modules()]
    assert kinds.count("GroupNorm") == 7 and "BatchNorm2d" not in kinds


@pytest.mark.parametrize("name", ["cnn-small", "cnn-gn"])
def test_gradients_of_single_records_are_those_of_batches_of_one(name):
    x, y = data(6)
    one = learner(name)
    one.get_weights()
    net, inputs, labels = one._net, torch.from_numpy(x).float()[:, None] / 255, torch.from_numpy(y)
    net.eval()  # no dropout
    found = training.gradients(net, inputs, labels)
    for row in range(6):
        net.zero_grad()
        torch.nn.functional.cross_entropy(net(inputs[row : row + 1]), labels[row : row + 1]).backward()
        alone = torch.cat([p.grad.flatten() for p in net.parameters()])
        torch.testing.assert_close(found[row], alone, rtol=1e-4, atol=1e-6)
    assert training.gradients(net, inputs[:0], labels[:0]).shape == (0, found.shape[1])


def steps_of(name: str, x: np.ndarray, y: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """The clipped gradients of a batch in grid steps, int64 (m, d), as the first step of a descent gets them."""
    one, seen = learner(name, x.shape[1:], lr=0.1), []
    size = sum(w.size for w in one.get_weights())
    noisy = SubsampledGaussian(1, 1.0, 0.5, 1.0, 1, size)

    def combine(found):
        seen.append(noisy.in_steps(found))
        assert np.linalg.norm(seen[0], axis=1).max(initial=0) <= grid_sensitivity(0.5, noisy.grid, size)
        return np.zeros(size)

    one.sgd_steps(x, y, [rows], combine)
    return seen[0]


IMAGES, LABELS = data(64)
VECTORS = np.random.default_rng(1).normal(size=(64, 30)).astype(np.float32) * 9


@pytest.mark.parametrize("kind", ["images", "vectors"])
@pytest.mark.parametrize("name", ["linear-torch", "mlp-torch", "cnn-small", "cnn-gn", "resnet8-gn"])
def test_without_a_record_the_sum_lacks_its_own_vector_and_nothing_else_moves(name, kind):
    """To the last bit, whatever the size of the batch: cnn-gn has dropout, and images were augmented."""
    if kind == "vectors" and name not in ("linear-torch", "mlp-torch"):
        pytest.skip("for images")
    x = IMAGES if kind == "images" else VECTORS

    @settings(max_examples=8, deadline=None)
    @given(st.sampled_from([1, 2, 3, 4, 6, 17, 33, 64]).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n - 1))))
    def holds(drawn: tuple[int, int]) -> None:
        n, place = drawn
        rows = np.arange(n)
        full, part = (steps_of(name, x, LABELS, some) for some in (rows, np.delete(rows, place)))
        assert np.array_equal(np.delete(full, place, axis=0), part)
        alone = steps_of(name, x, LABELS, rows[[place]])[0]
        assert np.array_equal(full.sum(axis=0) - part.sum(axis=0), alone) and alone.any()

    holds()


def test_a_record_whose_gradient_is_not_finite_counts_as_blank():
    net = nets.builder("mlp-torch", (30,))(4).eval()
    x, y = torch.from_numpy(VECTORS[:5]).clone(), torch.from_numpy(LABELS[:5])
    x[3, 0] = math.inf
    found = training.gradients(net, x, y)
    assert not found[3].any() and found[[0, 1, 2, 4]].any(dim=1).all()


class Drops(torch.nn.Module):
    """Draws in evaluation mode too."""

    def __init__(self, wide):
        super().__init__()
        self.last = torch.nn.Linear(wide, 4)

    def forward(self, x):
        return self.last(torch.nn.functional.dropout(x.flatten(1), 0.5, training=True))


class Counts(Drops):
    """Divides by how much it has seen."""

    seen = 0.0

    def forward(self, x):
        self.seen = self.seen + float(x.sum())
        return self.last(x.flatten(1) / (1 + self.seen))


class Normalises(Drops):
    """Batch norm without statistics, hence without a buffer."""

    def __init__(self, wide):
        super().__init__(wide)
        self.norm = torch.nn.BatchNorm2d(1, track_running_stats=False)

    def forward(self, x):
        return self.last(self.norm(x).flatten(1))


def foreign(kind):
    def factory(n_classes, input_shape):
        return kind(math.prod(input_shape))

    return factory


drops, counts, normalises = foreign(Drops), foreign(Counts), foreign(Normalises)


@pytest.mark.parametrize(("name", "why"), [("drops", "random"), ("counts", "state"), ("normalises", "BatchNorm2d")])
def test_a_network_in_which_records_meet_is_refused_by_name(name, why):
    one = learner(f"{__name__}:{name}")
    with pytest.raises(SettingsError, match=f"{name}.*{why}"):
        one.sgd_steps(IMAGES, LABELS, [], np.mean)


def test_opacus_finds_the_same_gradients():
    opacus = pytest.importorskip("opacus")
    x, y = data(5)
    one = learner("cnn-small")
    one.get_weights()
    net, inputs, labels = one._net, torch.from_numpy(x).float()[:, None] / 255, torch.from_numpy(y)
    mine = training.gradients(net, inputs, labels)
    net.train()  # opacus listens in training only; this network has no dropout
    sampled = opacus.GradSampleModule(net, loss_reduction="sum")
    torch.nn.functional.cross_entropy(sampled(inputs), labels, reduction="sum").backward()
    theirs = torch.cat([p.grad_sample.flatten(1) for p in net.parameters()], dim=1)
    torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-6)


def test_descent_with_the_mean_of_all_gradients_learns():
    x, y = data()
    one = learner(lr=0.5)
    rows = np.arange(len(x))
    one.sgd_steps(x, y, [rows] * 40, lambda found: found.mean(axis=0))
    assert (one.predict_logits(x).argmax(axis=1) == y).mean() > 0.9


@pytest.mark.parametrize("strength", [0.0, 0.5])
def test_the_domain_loss_reaches_its_head_as_it_is_and_the_layers_below_reversed(strength):
    x, y = data(10)
    one = learner("cnn-small")
    one.get_weights()
    net, inputs, labels = one._net, torch.from_numpy(x).float()[:, None] / 255, torch.from_numpy(y)
    classify = partial(torch.nn.functional.cross_entropy, target=labels)
    below, last = net[0].weight, net[-1].weight
    classify(net(inputs)).backward()
    plain, top = below.grad.clone(), last.grad.clone()
    net.zero_grad()
    adversary = DomainAdversary(net, lambda n: 1 - inputs[:n], strength)
    logits = net(torch.cat([inputs, adversary.draw(10)]))
    step = Step(inputs, labels, logits[:10], slice(10, 20), 1.0)
    (classify(logits[:10]) + adversary.loss(step)).backward()
    adversary.close()
    head = adversary.head[0].weight.grad
    torch.testing.assert_close(last.grad, top)  # the classes' own layer sees no domains
    assert head.abs().sum() > 0
    moved = below.grad - plain
    net.zero_grad()
    features = net[:-1](torch.cat([inputs, 1 - inputs]))
    truth = torch.cat([torch.zeros(10), torch.ones(10)])
    torch.nn.functional.binary_cross_entropy_with_logits(adversary.head(features)[:, 0], truth).backward()
    torch.testing.assert_close(moved, -strength * math.tanh(5) * below.grad, rtol=1e-3, atol=1e-6)


def test_training_with_adaptation_learns_the_classes_and_other_weights():
    (x, y), (target, _) = data(400), data(400, shift=100, seed=1)
    plain = learner("cnn-small", epochs=10).fit(x, y)
    adapted = learner("cnn-small", epochs=10).fit(x, y, objective=DomainAdversarial(target, 0.5))
    assert (adapted.predict_logits(x).argmax(axis=1) == y).mean() > 0.85
    assert not np.array_equal(adapted.get_weights()[0], plain.get_weights()[0])


def test_what_scikit_learn_cannot_do_is_refused():
    x, y = data(20)
    one = learner("logistic-regression")
    for objective in (DomainAdversarial(x, 1.0), Proximal([], 1.0)):
        with pytest.raises(SettingsError, match=f"no gradients, which {type(objective).__name__} needs"):
            one.fit(x, y, objective=objective)
    with pytest.raises(SettingsError, match="cnn-small"):
        one.sgd_steps(x, y, [], np.mean)
