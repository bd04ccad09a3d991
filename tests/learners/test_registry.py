import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fedballot.core.errors import SettingsError
from fedballot.learners.objectives import Abstain
from fedballot.learners.registry import LEARNERS, make_learner

pytest.importorskip("torch")

GOOD = {"n_classes": 3, "input_shape": (28, 28), "seed": 0, "epochs": 1, "batch_size": 8, "lr": 1e-3}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_classes": 1}, "n_classes is 1"),
        ({"input_shape": (28, 28, 1)}, r"\(h, w, 3\)"),
        ({"input_shape": ()}, "input_shape"),
        ({"input_shape": (0,)}, "input_shape"),
        ({"epochs": -1}, "epochs is -1"),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"lr": 0.0}, "lr is 0"),
        ({"lr": float("nan")}, "lr is nan"),
        ({"role": "judge"}, "client, student"),
        ({"input_shape": (20,)}, "20 features"),
        ({"device": "abacus"}, "cpu, cuda"),
        ({"device": "meta"}, "cpu, cuda"),
        ({"device": "cuda:99"}, "CUDA devices"),
    ],
)
def test_refuses(change, message):
    with pytest.raises(SettingsError, match=message):
        make_learner("cnn", **GOOD | change)


def test_too_small_images_are_refused_before_training():
    with pytest.raises(SettingsError, match="at least 8x8"):
        make_learner("cnn", **GOOD | {"input_shape": (7, 9)})


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cn-small", "did you mean 'cnn-small'"),
        ("xyz", "Known: cnn-small"),
        ("sklearn.nowhere:Thing", "there is no module 'sklearn.nowhere'"),
        ("sklearn.linear_model:Ridge", "no classifier"),
        ("sklearn.ensemble:VotingClassifier", "cannot be made"),
        ("sklearn.semi_supervised:SelfTrainingClassifier", "cannot be made"),
        ("no_such_package:net", "cannot be imported.*PYTHONPATH"),
        ("json:no_such_name", "cannot be imported"),
        ("math:sqrt", "cannot be built"),
        ("math:pi", "is of type float; expected a LearnerInfo, a class with fit and predict, or a function"),
        ("sklearn:linear model", "expected 'package.module:NAME'"),
        ("builtins:dict", "must return a torch.nn.Module"),
    ],
)
def test_wrong_names(name, message):
    with pytest.raises(SettingsError, match=message):
        make_learner(name, **GOOD)


@pytest.mark.parametrize(
    "path", ["sklearn.neural_network:MLPClassifier", "sklearn.neighbors:RadiusNeighborsClassifier"]
)
def test_scikit_learn_classes_whose_own_defaults_are_no_numbers(path):
    y = np.arange(30) % 2
    x = np.repeat(255 * y.astype(np.uint8), 28 * 28).reshape(30, 28, 28)
    learner = make_learner(path, **GOOD).fit(x, y)
    assert learner.predict_logits(x).argmax(1).tolist() == y.tolist()


def test_a_scikit_learn_class_by_path():
    x = np.random.default_rng(0).integers(0, 256, (30, 28, 28)).astype(np.uint8)
    learner = make_learner("sklearn.svm:SVC", **GOOD).fit(x, np.arange(30) % 2)
    logits = learner.predict_logits(x)
    assert logits.shape == (30, 3)
    # the class that it has not seen comes last, by far
    assert (logits[:, 2] < logits[:, :2].min(axis=1) - 5).all()
    assert (logits.argmax(1) == np.arange(30) % 2).mean() > 0.9


def test_a_torch_module_by_path(tmp_path, monkeypatch):
    (tmp_path / "their_nets.py").write_text(
        "from torch import nn\n"
        "def tiny(n_classes, input_shape):\n"
        "    h, w = input_shape\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(h * w, n_classes))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    x = np.random.default_rng(0).integers(0, 256, (12, 28, 28)).astype(np.uint8)
    learner = make_learner("their_nets:tiny", **GOOD).fit(x, np.arange(12) % 3, objective=Abstain(x))
    assert learner.predict_logits(x).shape == (12, 4)
    learner.save(tmp_path / "model")
    loaded = make_learner("their_nets:tiny", **GOOD).load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_logits(x), learner.predict_logits(x))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("nn.Sequential(nn.Flatten(), nn.Linear(7, n_classes))", r"fails on inputs of shape \(2, 1, 28, 28\)"),
        ("nn.Sequential(nn.Flatten(), nn.Linear(784, 1))", r"gives \(2, 1\) for 2 inputs; .*\(2, 3\)"),
        ("nn.LSTM(28, n_classes)", "fails on inputs"),
        ("nn.Sequential(nn.Flatten(), nn.LSTM(784, n_classes))", "gives tuple for 2 inputs"),
    ],
)
def test_a_torch_module_that_does_not_fit_is_refused_before_training(body, message, tmp_path, monkeypatch):
    (tmp_path / "unfit.py").write_text(
        f"from torch import nn\n\n\ndef net(n_classes, input_shape):\n    return {body}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "unfit", raising=False)
    with pytest.raises(SettingsError, match=message):
        make_learner("unfit:net", **GOOD)


def test_without_torch_the_rest_works_and_the_error_says_how_to_get_it():
    code = (
        "import sys\n"
        "class NoTorch:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'torch':\n"
        "            raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')\n"
        "sys.meta_path.insert(0, NoTorch())\n"
        "import numpy as np\n"
        "from fedballot.learners.registry import make_learner\n"
        "from fedballot.core.errors import SettingsError\n"
        f"good = {GOOD!r}\n"
        "x = np.zeros((4, 28, 28), np.uint8); x[2:] = 200\n"
        "forest = make_learner('random-forest', **good).fit(x, np.array([0, 0, 1, 1]))\n"
        "print(forest.predict_logits(x).argmax(1).tolist())\n"
        "try:\n    make_learner('cnn', **good)\n"
        "except SettingsError as error:\n    print(error)\n"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root, check=True)
    answers, error = done.stdout.splitlines()
    assert answers == "[0, 0, 1, 1]"
    assert "pip install 'fedballot[torch]'" in error and "random-forest" in error


def test_table_says_which_learners_need_torch():
    assert {name for name, info in LEARNERS.items() if not info.needs_torch} == {
        "logistic-regression",
        "random-forest",
        "gradient-boosting",
        "mlp",
        "knn",
        "xgboost",
        "lightgbm",
        "catboost",
    }
    assert all(info.summary for info in LEARNERS.values())
