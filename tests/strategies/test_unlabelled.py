"""Runs on public records of which nobody knows the classes: what cannot be measured is not, and all else is as ever."""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from fedballot.core.errors import SettingsError
from fedballot.core.metrics import share_right
from fedballot.model import load
from tests.model_runs import VOTES, run

SIZES = {
    "private_size": 250,
    "public_size": 169,
    "test_size": 100,
    "test_source": "private",
    "public_labels": "ignored",
}
NETWORK = {"client_models": "mlp-torch", "clients": 2, "min_clients": 2, "epochs": 1}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("tables")
    data = load_breast_cancer(as_frame=True)
    frame = data.frame.drop(columns="target").assign(label=data.target.map({0: "malignant", 1: "benign"}))
    frame[:400].to_csv(folder / "private.csv", index=False)
    frame[400:].drop(columns="label").to_csv(folder / "pool.csv", index=False)
    return {"dataset": str(folder / "private.csv"), "public_dataset": str(folder / "pool.csv")}


def test_votes(tables: dict[str, str], tmp_path: Path) -> None:
    folder = run(tmp_path / "run", **VOTES | SIZES | tables, server_model="random-forest")
    metrics = json.loads((folder / "result.json").read_text())["metrics"]
    assert metrics["server_accuracy"] > 0.8
    assert metrics["label_accuracy"] is None and metrics["noisy_label_accuracy"] is None
    model = load(folder)
    assert model.classes == ("benign", "malignant")
    assert set(model.predict(model.read(tables["public_dataset"]))) == {"benign", "malignant"}


@pytest.mark.parametrize("method", ["fedkd", "fedauxfdp", "fedmd"])
def test_other_methods(method: str, tables: dict[str, str], tmp_path: Path) -> None:
    pytest.importorskip("torch")
    more = {
        "fedkd": NETWORK | {"server_model": "mlp-torch", "server_epochs": 1},
        "fedauxfdp": {"clients": 2, "min_clients": 2},
        "fedmd": NETWORK | {"pretrain_epochs": 0, "rounds": 1},
    }[method]
    folder = run(tmp_path / "run", method, **SIZES | tables | more)
    assert json.loads((folder / "result.json").read_text())["metrics"].get("label_accuracy") is None


def test_what_learns_public_labels_refuses(tables: dict[str, str], tmp_path: Path) -> None:
    pytest.importorskip("torch")
    with pytest.raises(
        SettingsError, match=r"pretrain_epochs=20 learns the labels of public records.*set pretrain_epochs=0"
    ):
        run(tmp_path / "run", "fedmd", **SIZES | tables | NETWORK)


def test_unknown_classes_do_not_count() -> None:
    assert share_right(np.array([0, 1, 1]), np.array([0, 0, -1])) == 0.5
    assert share_right(np.array([0, 1]), np.array([-1, -1])) is None
