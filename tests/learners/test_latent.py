"""The generator of features: the ensemble by hand, what is trained on them, and which networks it fits."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from fedballot.core.errors import DataError, SettingsError
from fedballot.learners import latent
from fedballot.learners.objectives import Replay
from fedballot.learners.registry import make_learner
from fedballot.learners.terms import Step


def learner(name="mlp-torch", **over):
    asked = {"n_classes": 3, "input_shape": (8, 8), "seed": 0, "epochs": 3, "batch_size": 16, "lr": 3e-3}
    return make_learner(name, **{**asked, **over})


def data(n=60, classes=3):
    y = np.arange(n) % classes
    x = np.random.default_rng(0).integers(0, 60, (n, 8, 8))
    x[np.arange(n), y] += 150
    return x.astype(np.uint8), y.astype(np.int64)


def test_each_label_has_the_ensemble_of_those_who_know_it():
    """Two clients, two classes, one feature: client 0 alone knows label 0, both know label 1."""
    heads = [(np.array([[2.0], [0.0]]), np.array([1.0, 0.0])), (np.array([[0.0], [4.0]]), np.array([0.0, 2.0]))]
    ensemble = latent.Heads.of(heads, np.array([[1.0, 0.25], [0.0, 0.75]]), "cpu")
    logits = ensemble.logits(torch.tensor([[3.0], [3.0]]), torch.tensor([0, 1]))
    # label 0: 2*3+1 and 0 of client 0; label 1: a quarter of that, and three quarters of 0 and 4*3+2
    np.testing.assert_allclose(logits, [[7.0, 0.0], [1.75, 10.5]])


def test_with_equal_weights_the_ensemble_is_the_mean_of_the_clients_logits():
    rng = np.random.default_rng(1)
    heads = [(rng.normal(size=(4, 6)), rng.normal(size=4)) for _ in range(5)]
    features = rng.normal(size=(7, 6)).astype(np.float32)
    ensemble = latent.Heads.of(heads, np.full((5, 4), 0.2), "cpu")
    found = ensemble.logits(torch.from_numpy(features), torch.arange(7) % 4)
    np.testing.assert_allclose(found, np.mean([features @ w.T + b for w, b in heads], axis=0), atol=1e-5)


def test_diversity_by_hand():
    noise, features = torch.tensor([[0.0, 0.0], [2.0, 2.0]]), torch.tensor([[0.0, 1.0], [3.0, 0.0]])
    # of four pairs two are of different ones: noise 4 apart, features 2
    assert latent.diversity(noise, features).item() == pytest.approx(math.exp(-(2 * 4 * 2) / 4))
    assert latent.diversity(noise, torch.ones(2, 2)).item() == 1


def test_training_makes_features_that_the_ensemble_takes_for_their_label():
    rng = np.random.default_rng(2)
    ensemble = latent.Heads.of([(rng.normal(size=(5, 8)), np.zeros(5))], np.ones((1, 5)), "cpu")
    start = latent.initial(5, 8, seed=0)
    options = {"batch_size": 64, "lr": 5e-3, "seed": 1}
    _, before = latent.train(start, ensemble, np.full(5, 0.2), steps=0, **options)
    vector, after = latent.train(start, ensemble, np.full(5, 0.2), steps=200, **options)
    assert after < 0.05 < 1 < before
    again, _ = latent.train(start, ensemble, np.full(5, 0.2), steps=200, **options)
    assert np.array_equal(vector, again)
    generator = latent.load(vector, 5, 8, "cpu")
    labels, noise = torch.zeros(50, dtype=torch.int64), torch.randn(50, latent.NOISE)
    assert generator(labels, noise).std(0).mean() > 0.1  # not the same feature every time


def test_a_label_without_a_share_is_never_asked_for():
    ensemble = latent.Heads.of([(np.array([[0.0], [0.0]]), np.array([1000.0, 0.0]))], np.ones((1, 2)), "cpu")
    options = {"steps": 0, "batch_size": 8, "lr": 1e-3, "seed": 0}
    start = latent.initial(2, 1, seed=0)
    assert latent.train(start, ensemble, np.array([1.0, 0.0]), **options)[1] == 0
    assert latent.train(start, ensemble, np.array([0.0, 1.0]), **options)[1] == 1000


def test_replay_adds_the_loss_of_the_last_layer_and_trains_nothing_else():
    """A generator without weights but the last biases makes one feature, whose loss is known."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(4, 2), nn.Linear(2, 2))
    with torch.no_grad():
        net[2].weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 0.0]]))
        net[2].bias.zero_()
    vector = np.zeros_like(latent.initial(2, 2, seed=0))
    vector[-2:] = [math.log(3), 0]  # so that label 0 has probability 3/4 and label 1 1/4
    replay = latent.LatentReplay(net[2], vector, np.array([0.0, 1.0], np.float32), strength=2.0)
    assert not any(p.requires_grad for p in replay._generator.parameters())
    x = torch.rand(5, 4)
    replay.draw(5)
    logits = net(x)
    loss = replay.loss(Step(x, torch.zeros(5, 2), logits, slice(5, 5), 0.5)) + 0 * logits.sum()
    assert loss.item() == pytest.approx(2 * math.log(4), rel=1e-6)
    loss.backward()
    assert net[1].weight.grad.abs().sum() == 0  # the layers below see no generated feature
    np.testing.assert_allclose(net[2].bias.grad, [2 * 0.75, -2 * 0.75], rtol=1e-6)


def test_replay_keeps_what_a_client_without_the_class_would_forget():
    x, y = data()
    taught = learner(epochs=30).fit(x, y)
    ensemble = latent.Heads.of([taught.head()], np.ones((1, 3)), "cpu")
    vector, _ = latent.train(
        latent.initial(3, 128, seed=0), ensemble, np.full(3, 1 / 3), steps=200, batch_size=64, lr=5e-3, seed=0
    )
    kept = {}
    for strength in (0.0, 1.0):
        other = learner(epochs=60, lr=1e-2).set_weights(taught.get_weights())
        replay = Replay(vector, np.full(3, 1 / 3, np.float32), strength)
        other.fit(x[y == 0], y[y == 0], objective=replay)  # one class only
        kept[strength] = float(np.mean(other.predict_logits(x).argmax(axis=1) == y))
    assert kept[1.0] > kept[0.0] + 0.2, kept


def bare(n_classes, input_shape):
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, n_classes, bias=False))


def with_a_softmax(n_classes, input_shape):
    return nn.Sequential(bare(n_classes, input_shape), nn.Softmax(1))


def convolutions(n_classes, input_shape):
    return nn.Sequential(nn.Conv2d(1, n_classes, 8), nn.Flatten())


@pytest.mark.parametrize("name", ["cnn-small", "cnn-gn", "resnet8-gn", "mlp-torch", f"{__name__}:bare"])
def test_the_last_layer_of_what_ends_in_one(name):
    x, y = data()
    one = learner(name).fit(x, y)
    weight, bias = one.head()
    assert bias.shape == (3,) and weight.shape[0] == 3
    seen = []
    hook = [m for m in one._net.modules() if isinstance(m, nn.Linear)][-1].register_forward_pre_hook(
        lambda _, args: seen.append(args[0])
    )
    logits = one.predict_logits(x)
    hook.remove()
    np.testing.assert_allclose(torch.cat(seen).numpy() @ weight.T + bias, logits, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("linear-torch", "weights below its last linear layer"),
        (f"{__name__}:with_a_softmax", "ends in one linear layer"),
        (f"{__name__}:convolutions", "ends in one linear layer"),
        ("cnn", "batch norm"),
        ("logistic-regression", "shares no weights"),
    ],
)
def test_other_learners_are_refused(name, words):
    with pytest.raises(SettingsError, match=words):
        learner(name).head()


def test_a_generator_that_does_not_fit_is_refused():
    x, y = data()
    vector, shares = latent.initial(3, 128, seed=0), np.full(3, 1 / 3, np.float32)
    with pytest.raises(SettingsError, match="no gradients, which Replay needs"):
        learner("logistic-regression").fit(x, y, objective=Replay(vector, shares, 1.0))
    with pytest.raises(SettingsError, match="no last layer to generate for"):
        learner("linear-torch").fit(x, y, objective=Replay(vector, shares, 1.0))
    with pytest.raises(DataError, match="a generator of 128 features has"):
        learner().fit(x, y, objective=Replay(vector[1:], shares, 1.0))
