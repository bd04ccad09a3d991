"""What every learner of the table must do, on scikit-learn's digits."""

from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.datasets import load_digits

from fedballot.core.errors import DataError, RunError, SettingsError
from fedballot.learners.objectives import Abstain
from fedballot.learners.registry import LEARNERS, make_learner

DIGITS = load_digits()
ORDER = np.random.default_rng(0).permutation(len(DIGITS.target))
# 16x16: the smallest images that all networks take
IMAGES = np.kron(DIGITS.images[ORDER], np.ones((2, 2))).astype(np.uint8) * 15
Y = DIGITS.target[ORDER].astype(np.int64)
HAS_TORCH = find_spec("torch") is not None
BOOSTED = ("xgboost", "lightgbm", "catboost")  # named like the packages that they are from
MISSING = [name for name in BOOSTED if find_spec(name) is None]
NAMES = [name for name, info in LEARNERS.items() if (HAS_TORCH or not info.needs_torch) and name not in MISSING]
SLOW = ("shufflenet-v2", "mobilenet-v2", "resnet8", "resnet8-gn", "gradient-boosting", "catboost")
SEEDLESS = ("knn", "logistic-regression", "xgboost", "lightgbm")  # nothing in them is drawn, by default
FAST = [name for name in NAMES if name not in SLOW]

# fewer trees than by default: what is asked here holds for as many as there are
TREES = {
    "random-forest": "n_estimators=30",
    "gradient-boosting": "max_iter=10",
    "xgboost": "n_estimators=20",
    "lightgbm": "n_estimators=20",
    "catboost": "iterations=20",
}
PAIR = [name for name in ("cnn-small", "random-forest") if name in NAMES]


def make(name, **changes):
    settings = {"n_classes": 10, "input_shape": (16, 16), "seed": 1, "epochs": 1, "batch_size": 32, "lr": 5e-3}
    return make_learner(f"{name}({TREES[name]})" if name in TREES else name, **settings | changes)


@pytest.mark.parametrize("name", NAMES)
def test_shapes_types_and_norms(name):
    learner = make(name).fit(IMAGES[:40], Y[:40])
    logits = learner.predict_logits(IMAGES[:7])
    assert logits.shape == (7, 10) and logits.dtype == np.float32 and np.isfinite(logits).all()
    features = learner.features(IMAGES[:7])
    assert len(features) == 7 and features.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(features, axis=1), 1, rtol=1e-4)
    assert learner.predict_logits(IMAGES[:0]).shape == (0, 10)


@pytest.mark.parametrize("name", NAMES)
def test_same_seed_same_bytes_and_file_round_trip(name, tmp_path):
    first = make(name).fit(IMAGES[:40], Y[:40], objective=Abstain(IMAGES[100:130]))
    expected = first.predict_logits(IMAGES[:50])
    assert expected.shape == (50, 11)
    again = make(name).fit(IMAGES[:40], Y[:40], objective=Abstain(IMAGES[100:130]))
    assert again.predict_logits(IMAGES[:50]).tobytes() == expected.tobytes()
    first.save(tmp_path / "sub" / "model")
    loaded = make(name, seed=2).load(tmp_path / "sub" / "model")
    assert loaded.predict_logits(IMAGES[:50]).tobytes() == expected.tobytes()
    assert [file.name for file in (tmp_path / "sub").iterdir()] == ["model"]


@pytest.mark.parametrize("name", [name for name in FAST if name not in SEEDLESS])
def test_another_seed_gives_another_model(name):
    outputs = [make(name, seed=seed).fit(IMAGES[:60], Y[:60]).predict_logits(IMAGES[:9]) for seed in (1, 2)]
    assert (outputs[0] != outputs[1]).any()


@pytest.mark.parametrize("name", FAST)
def test_learns_digits(name):
    learner = make(name, epochs=8).fit(IMAGES[:500], Y[:500])
    assert (learner.predict_logits(IMAGES[500:1000]).argmax(1) == Y[500:1000]).mean() > 0.85


@pytest.mark.parametrize("name", NAMES)
def test_a_client_with_one_class_answers_for_all(name):
    only = IMAGES[Y == 3][:20]
    learner = make(name, epochs=20).fit(only, np.full(20, 3))
    logits = learner.predict_logits(IMAGES[:30])
    assert logits.shape == (30, 10) and np.isfinite(logits).all()
    assert (logits.argmax(1) == 3).mean() > 0.9


@pytest.mark.parametrize("name", NAMES)
def test_one_record(name):
    assert np.isfinite(make(name).fit(IMAGES[:1], Y[:1]).predict_logits(IMAGES[:3])).all()


@pytest.mark.parametrize("name", NAMES)
def test_no_epochs_still_answers(name):
    assert make(name, epochs=0).fit(IMAGES[:20], Y[:20]).predict_logits(IMAGES[:3]).shape == (3, 10)


@pytest.mark.parametrize("name", FAST)
def test_two_classes(name):
    binary = Y < 2
    x, y = IMAGES[binary], Y[binary]
    learner = make(name, n_classes=2, epochs=10).fit(x[:80], y[:80])
    assert learner.predict_logits(x).shape == (len(x), 2)
    assert (learner.predict_logits(x[80:]).argmax(1) == y[80:]).mean() > 0.9


@pytest.mark.parametrize("name", FAST)
def test_abstains_on_what_it_has_never_seen(name):
    low = Y < 5
    learner = make(name, epochs=10).fit(IMAGES[low][:250], Y[low][:250], objective=Abstain(IMAGES[900:]))
    abstains = learner.predict_logits(IMAGES[500:900]).argmax(1) == 10
    seen = low[500:900]
    assert abstains[~seen].mean() > abstains[seen].mean() + 0.3


@pytest.mark.parametrize("name", FAST)
def test_distills_soft_labels(name):
    targets = np.full((500, 10), 0.02, dtype=np.float32)
    targets[np.arange(500), Y[:500]] = 0.82
    learner = make(name, epochs=8, role="student").distill(IMAGES[:500], targets)
    logits = learner.predict_logits(IMAGES[500:1000])
    assert (logits.argmax(1) == Y[500:1000]).mean() > 0.85


@pytest.mark.parametrize("name", FAST)
def test_distilling_tells_how_far_it_is(name):
    steps = []
    targets = np.eye(10, dtype=np.float32)[Y[:50]]
    make(name, epochs=3).distill(IMAGES[:50], targets, progress=lambda done, of: steps.append((done, of)))
    assert [done for done, _ in steps] == list(range(1, len(steps) + 1))
    assert {of for _, of in steps} == {len(steps)}


@pytest.mark.parametrize("name", FAST)
def test_weights_of_zero_silence_wrong_targets(name):
    wrong = np.arange(400) % 2 == 0
    targets = np.eye(10, dtype=np.float32)[np.where(wrong, (Y[:400] + 1) % 10, Y[:400])]
    learner = make(name, epochs=8).distill(IMAGES[:400], targets, weights=(~wrong).astype(np.float32))
    assert (learner.predict_logits(IMAGES[500:1000]).argmax(1) == Y[500:1000]).mean() > 0.8


@pytest.mark.parametrize("name", FAST)
def test_semi_supervision_believes_the_confident(name):
    rng = np.random.default_rng(4)
    wrong = rng.random(400) < 0.15
    labels = np.where(wrong, (Y[:400] + 1) % 10, Y[:400])
    confidence = (1 - wrong + rng.random(400) / 10).astype(np.float32)
    steps = []
    learner = make(name, epochs=15, role="student").semi_supervise(
        IMAGES[:400], labels, confidence, self_train=True, progress=lambda done, total: steps.append((done, total))
    )
    assert (learner.predict_logits(IMAGES[500:1000]).argmax(1) == Y[500:1000]).mean() > 0.85
    assert steps[-1][0] == steps[-1][1] == len(steps)


def test_semi_supervision_aligns_to_the_prior():
    y = (Y[:600] == 8).astype(np.int64)
    rows = np.flatnonzero((y == 0) | (np.cumsum(y) <= 6))
    prior = np.array([1 - y[rows].mean(), y[rows].mean()], dtype=np.float32)
    said = [
        make("random-forest", role="student", n_classes=2)
        .semi_supervise(IMAGES[rows], y[rows], None, self_train=True, prior=shares)
        .predict_logits(IMAGES[600:])
        .argmax(1)
        .sum()
        for shares in (None, prior)
    ]
    assert said[0] > 10 and said[1] < 5  # evened out, a class of 1 % spreads


@pytest.mark.parametrize("name", PAIR)
@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (IMAGES[:0], Y[:0], "empty"),
        (IMAGES[:5, :8], Y[:5], r"takes \(n, 16, 16\)"),
        (IMAGES[:5].astype(np.float32), Y[:5], "uint8"),
        (IMAGES[:5], Y[:4], "must be 5 integers"),
        (IMAGES[:5], Y[:5].astype(float), "must be 5 integers"),
        (IMAGES[:3], np.array([0, 10, 1]), r"y\[1\] is 10"),
        (IMAGES[:3], np.array([0, 1, -1]), r"y\[2\] is -1"),
    ],
)
def test_refuses_wrong_examples(name, x, y, message):
    with pytest.raises(SettingsError, match=message):
        make(name).fit(x, y)


@pytest.mark.parametrize("name", PAIR)
def test_refuses_wrong_targets_and_confidence(name):
    learner = make(name)
    x = IMAGES[:4]
    even = np.full((4, 10), 0.1, dtype=np.float32)
    with pytest.raises(SettingsError, match="sum 1"):
        learner.distill(x, even * 2)
    with pytest.raises(SettingsError, match="sum 1"):
        learner.distill(x, even * np.nan)
    with pytest.raises(SettingsError, match=r"must be \(4, 10\)"):
        learner.distill(x, even[:, :9])
    with pytest.raises(SettingsError, match="weights must be"):
        learner.distill(x, even, weights=np.array([1, 1, 1, -1], dtype=np.float32))
    with pytest.raises(SettingsError, match="all weights are 0"):
        learner.distill(x, even, weights=np.zeros(4, dtype=np.float32))
    with pytest.raises(SettingsError, match="confidence"):
        learner.semi_supervise(x, Y[:4], np.array([1, 2, np.nan, 0], dtype=np.float32), self_train=True)


@pytest.mark.parametrize("name", ["mlp-torch", "logistic-regression"] if HAS_TORCH else ["logistic-regression"])
def test_feature_vectors(name):
    x = DIGITS.data[ORDER].astype(np.float32) / 16
    learner = make(name, input_shape=(64,), epochs=8).fit(x[:500], Y[:500])
    assert (learner.predict_logits(x[500:]).argmax(1) == Y[500:]).mean() > 0.85
    broken = x[:5].copy()
    broken[3, 2] = np.nan
    with pytest.raises(SettingsError, match="first in row 3"):
        learner.predict_logits(broken)
    with pytest.raises(SettingsError, match="float32"):
        learner.predict_logits(np.zeros((2, 64), dtype=np.int64))


@pytest.mark.parametrize("name", PAIR)
def test_refuses_to_answer_untrained(name, tmp_path):
    for act in (lambda m: m.predict_logits(IMAGES[:1]), lambda m: m.features(IMAGES[:1]), lambda m: m.save(tmp_path)):
        with pytest.raises(RunError, match="has not been trained"):
            act(make(name))


@pytest.mark.parametrize("name", PAIR)
@pytest.mark.parametrize("damage", ["missing", "empty", "truncated", "flipped", "text"])
def test_damaged_files(name, damage, tmp_path):
    path = tmp_path / "model"
    make(name).fit(IMAGES[:40], Y[:40]).save(path)
    content = bytearray(path.read_bytes())
    if damage == "missing":
        path.unlink()
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "truncated":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "flipped":
        content[0:8] = b"\xff" * 8
        path.write_bytes(content)
    else:
        path.write_text("this is no model\n")
    with pytest.raises(DataError, match="model"):
        make(name).load(path)


@pytest.mark.parametrize("name", PAIR)
def test_files_of_other_learners(name, tmp_path):
    path = tmp_path / "model"
    make("mlp-torch" if name == "cnn-small" else "knn").fit(IMAGES[:40], Y[:40]).save(path)
    with pytest.raises(DataError, match="saved by a learner whose learner is"):
        make(name).load(path)
    make(name, n_classes=3).fit(IMAGES[:40], Y[:40] % 3).save(path)
    with pytest.raises(DataError, match="classes is 3"):
        make(name).load(path)


@pytest.mark.skipif(not HAS_TORCH, reason="needs torch")
def test_divergence_is_an_error_not_a_nan():
    with pytest.raises(RunError, match=r"diverged with lr = 1e\+30"):
        make("cnn-small", lr=1e30).fit(IMAGES[:100], Y[:100])
