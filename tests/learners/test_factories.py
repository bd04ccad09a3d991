"""Models that functions of the user's build: scikit-learn objects, plain objects, torch modules; how they are kept."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits

from fedballot.core.errors import SettingsError
from fedballot.learners import factories
from fedballot.learners.registry import get_learner, make_learner
from fedballot.learners.tryout import try_learner

CANCER, DIGITS = load_breast_cancer(), load_digits()
ROWS = np.random.default_rng(0).permutation(len(CANCER.target))
X, Y = CANCER.data.astype(np.float32)[ROWS], CANCER.target.astype(np.int64)[ROWS]
IMAGES = np.kron(DIGITS.images, np.ones((4, 4))).astype(np.uint8) * 15  # 32x32

FACTORIES = """
import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import StackingClassifier, VotingClassifier
from sklearn.feature_selection import SelectKBest
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC


def piped_svc(C=1.0):
    return make_pipeline(StandardScaler(), SVC(C=C))


def piped_knn(algorithm="ball_tree", metric="manhattan"):
    return make_pipeline(StandardScaler(), KNeighborsClassifier(n_neighbors=7, algorithm=algorithm, metric=metric))


def columns(n_features):
    return make_pipeline(
        ColumnTransformer([("scale", StandardScaler(), list(range(n_features - 1)))], remainder="passthrough"),
        SelectKBest(k=n_features // 2),
        LogisticRegression(max_iter=500),
    )


def calibrated():
    return CalibratedClassifierCV(piped_svc())


def process():
    return make_pipeline(StandardScaler(), GaussianProcessClassifier())


def voting():
    return VotingClassifier([("svc", piped_svc()), ("knn", piped_knn())])


def stacking():
    return StackingClassifier([("svc", piped_svc()), ("knn", piped_knn())])


def searched():
    return GridSearchCV(piped_svc(), {"svc__C": [0.1, 1.0]}, cv=3)


class Plain:
    '''No base class, no classes_, no clone: labels must be 0, 1, 2 without gaps.'''

    def fit(self, x, y):
        assert sorted(set(y)) == list(range(len(set(y))))
        self.means = np.stack([x[y == label].mean(axis=0) for label in range(max(y) + 1)])
        self.scale = x.std(axis=0) + 1e-6

    def predict_proba(self, x):
        scores = -(((x[:, None] - self.means) / self.scale) ** 2).sum(axis=2)
        p = np.exp(scores - scores.max(axis=1, keepdims=True))
        return p / p.sum(axis=1, keepdims=True)


def plain():
    return Plain()


class Forgets(Plain):
    '''Predicts otherwise once it is stored.'''

    def __getstate__(self):
        return {k: v[::-1].copy() if k == "means" else v for k, v in vars(self).items()}


class Unstorable(Plain):
    def fit(self, x, y):
        super().fit(x, y)
        self.file = (n for n in [])


class Greedy(Plain):
    '''Needs more records than there are features.'''

    def fit(self, x, y):
        if len(x) <= x.shape[1] * 2:
            raise ValueError("too few records")
        super().fit(x, y)
"""

NETS = """
import torch
from torch import nn


class Tied(nn.Module):
    '''A layer and its transpose share their weight, as do two names of one layer.'''

    def __init__(self, n_features, num_classes):
        super().__init__()
        self.norm = nn.LayerNorm(n_features, elementwise_affine=False)
        self.there = nn.Linear(n_features, n_features, bias=False)
        self.back = nn.Linear(n_features, n_features, bias=False)
        self.back.weight = self.there.weight
        self.head = nn.Linear(n_features, num_classes)
        self.alias = self.head

    def forward(self, x):
        return self.alias(torch.relu(self.back(torch.relu(self.there(self.norm(x))))))


def by_chans(in_chans, num_classes, width=4):
    return nn.Sequential(
        nn.Conv2d(in_chans, width, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, num_classes)
    )


def diverges(n_features, num_classes):
    return nn.Sequential(nn.Linear(n_features, num_classes), Explode())


class Explode(nn.Module):
    def forward(self, x):
        return x / 0 if self.training else x
"""


@pytest.fixture(autouse=True)
def _modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in (("own_models", FACTORIES), ("own_nets", NETS)):
        (tmp_path / f"{name}.py").write_text(text)
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(tmp_path)


def make(name: str, **over: Any) -> Any:
    given = {"n_classes": 2, "input_shape": (30,), "seed": 3, "epochs": 30, "batch_size": 32, "lr": 5e-3}
    return make_learner(name, **given | over)


OWN = ("piped_svc", "piped_svc(C=3.0)", "piped_knn", "columns", "calibrated", "process", "voting", "stacking")
OWN += ("searched", "plain", "Plain", "Greedy", "piped_knn(algorithm='kd_tree', metric='chebyshev')")


@pytest.mark.parametrize("name", OWN)
def test_what_a_function_or_class_of_the_user_s_makes_learns_and_comes_back(name: str, tmp_path: Path) -> None:
    name = f"own_models:{name}"
    assert not get_learner(name).needs_torch
    try_learner(name, X[350:], n_classes=2)
    one = make(name).fit(X[:350], Y[:350])
    said = one.predict_logits(X[350:])
    assert (said.argmax(axis=1) == Y[350:]).mean() > 0.9  # a constant has 0.63
    one.save(tmp_path / "model")
    assert make(name).load(tmp_path / "model").predict_logits(X[350:]).tobytes() == said.tobytes()
    few = make(name).fit(X[:12], Y[:12]) if "searched" not in name and "Greedy" not in name else one
    assert np.isfinite(few.predict_logits(X)).all()
    assert np.isfinite(make(name).distill(X, np.eye(2, dtype=np.float32)[Y]).predict_logits(X)).all()


def test_labels_of_a_plain_object_may_have_gaps(tmp_path: Path) -> None:
    rows = np.isin(DIGITS.target, (0, 7))
    x, y = DIGITS.data[rows].astype(np.float32), DIGITS.target[rows].astype(np.int64)
    one = make("own_models:plain", n_classes=10, input_shape=(64,)).fit(x, y)
    assert (one.predict_logits(x).argmax(axis=1) == y).mean() > 0.95


def test_a_pipeline_weighs_records_through_its_last_step() -> None:
    weights = np.where(Y == 1, 1e-3, 1.0).astype(np.float32)
    target = np.eye(2, dtype=np.float32)[Y]
    plain, weighed = (make("own_models:piped_svc").distill(X, target, weights=w) for w in (None, weights))
    share = [(one.predict_logits(X).argmax(axis=1) == 1).mean() for one in (plain, weighed)]
    assert share[1] < share[0] - 0.2


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("own_models:Forgets", "cannot be stored and taken up again: it predicts otherwise then"),
        ("own_models:Unstorable", "cannot be stored and taken up again"),
        ("own_models:piped_svc(C=-1.0)", "failed when tried on 220 public records: .*The 'C' parameter of SVC"),
        ("own_models:piped_svc(D=1.0)", "no parameter 'D'. Allowed: C"),
        ("sklearn.naive_bayes:MultinomialNB", "failed when tried on 220 public records: .*Negative values"),
        ("random-forest(max_depth='deep')", "failed when tried .*The 'max_depth' parameter of RandomForestClassifier"),
        ("linear-torch(width=3)", "no parameter 'width'. It takes none"),
    ],
)
def test_what_cannot_be_trained_or_kept_is_refused_before_a_run(name: str, words: str) -> None:
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    with pytest.raises(SettingsError, match=words):
        try_learner(name, scaled[:300], n_classes=2)


def test_ours_without_parameters_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedballot.learners.sklearn_learner.ScikitLearner.fit", None)
    try_learner("random-forest", X, n_classes=2)
    with pytest.raises(SettingsError, match="failed when tried"):
        try_learner("random-forest(n_estimators=3)", X, n_classes=2)


def test_words_are_given_by_name() -> None:
    seen: list[dict[str, Any]] = []

    def timm_like(model: str = "x", **more: Any) -> None:
        seen.append(more)

    def torchvision_like(*, weights: Any = None, **more: Any) -> None:
        if "in_chans" in more:
            raise TypeError("ResNet.__init__() got an unexpected keyword argument 'in_chans'")
        seen.append(more)

    def table(n_features: int, n_classes: int = 5) -> None:
        seen.append({"n_features": n_features, "n_classes": n_classes})

    for factory, shape in ((timm_like, (8, 8, 3)), (torchvision_like, (8, 8)), (table, (30,))):
        factories.call("x", factory, {}, n_classes=4, input_shape=shape)
    factories.call("x", timm_like, {"in_chans": 1}, n_classes=4, input_shape=(8, 8, 3))
    assert seen == [
        {"num_classes": 4, "in_chans": 3},
        {"num_classes": 4},
        {"n_features": 30, "n_classes": 4},
        {"num_classes": 4, "in_chans": 1},
    ]


def test_tied_weights_are_averaged_once_and_stored_once(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from safetensors import safe_open

    name = "own_nets:Tied"
    assert get_learner(name).needs_torch
    try_learner(name, X, n_classes=2)
    one = make(name, role="student").fit(X[:350], Y[:350])
    said = one.predict_logits(X[350:])
    assert (said.argmax(axis=1) == Y[350:]).mean() > 0.85
    one.save(tmp_path / "model")
    with safe_open(tmp_path / "model", "pt") as file:
        assert sorted(file.keys()) == ["head.bias", "head.weight", "there.weight"]
    loaded = make(name).load(tmp_path / "model")
    assert loaded.predict_logits(X[350:]).tobytes() == said.tobytes()
    assert loaded._net.back.weight is loaded._net.there.weight

    from fedballot.learners.training import Average

    torch.manual_seed(0)
    net = loaded._net.train()
    average = Average(net)
    with torch.no_grad():
        net.there.weight.add_(1.0)
        net.head.weight.add_(1.0)
    before = average.net.head.weight.clone()
    average.update(net)
    moved = average.net.head.weight - before
    assert torch.allclose(moved, torch.full_like(moved, 1 - min(0.999, 2 / 11)), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["torchvision.models:resnet18", "own_nets:by_chans(width=8)"])
@pytest.mark.parametrize("colour", [False, True])
def test_networks_of_other_packages_take_grey_and_colour_images(name: str, colour: bool, tmp_path: Path) -> None:
    pytest.importorskip("torchvision")
    bright = np.arange(97) % 2  # 97 = 6 * 16 + 1: a batch of one, at which batch norm stops
    grey = IMAGES[:97] // 3 + 100 * bright[:, None, None].astype(np.uint8)
    x = grey[..., None].repeat(3, axis=3) if colour else grey
    settings = {"input_shape": x.shape[1:], "epochs": 3, "batch_size": 16}
    assert get_learner(name).needs_torch
    try_learner(name, x, n_classes=2)
    one = make(name, **settings).fit(x, bright)
    said = one.predict_logits(x)
    assert said.shape == (97, 2)
    one.save(tmp_path / "model")
    assert make(name, **settings).load(tmp_path / "model").predict_logits(x).tobytes() == said.tobytes()
    if "resnet" in name:
        assert (said.argmax(axis=1) == bright).mean() > 0.9


def test_a_network_that_diverges_is_refused_before_a_run() -> None:
    pytest.importorskip("torch")
    with pytest.raises(SettingsError, match=r"'own_nets:diverges' failed when tried on 10 public records: .*diverged"):
        try_learner("own_nets:diverges", X, n_classes=2)
