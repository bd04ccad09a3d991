"""Settings that a run does not read: whatever they are, the run is the same; and whoever names one is told."""

from __future__ import annotations

import dataclasses
import json
import math
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedballot as fb
from fedballot.api.experiment import without_effect
from fedballot.core.errors import SettingsError
from fedballot.core.files import read_arrays
from fedballot.core.setting import Settings, build, choices_of, declaration
from fedballot.methods.registry import all_methods, get_method, settings_types
from fedballot.settings.layers import load_preset, preset_names, resolve
from fedballot.settings.parts import Federation
from fedballot.settings.voting import PateSettings
from tests.conftest import QUICK_RUN, fitting
from tests.inprocess import run_here
from tests.settings.test_read import LINEAR, OWN_NETWORK, SHARED_NETWORK, TORCH, WORLD


def others(settings: Settings) -> Iterator[tuple[str, Any]]:
    """Another value for each setting that is not read, where the rest allows one."""
    choices = choices_of(type(settings))
    for field in dataclasses.fields(settings):
        if field.name not in settings.unread():
            continue
        value, declared = getattr(settings, field.name), declaration(field)
        further: list[Any] = [word for word in choices.get(field.name, ()) if word != value]
        if isinstance(value, bool):
            further = [not value]
        elif isinstance(value, int):
            further = [value + 1, value + 2, value - 1]
        elif isinstance(value, float):
            further = [value / 2, (value + 1) / 2, value + 1]
        elif declared.kind == "extractor":
            further = ["l2"]
        for one in further:
            try:
                build(type(settings), settings.to_dict(), {field.name: one})
            except SettingsError:
                continue
            yield field.name, one
            break


GIVEN = {"noise_seed": 3, "extractor": "hog", "sigma": 8.0, "noise_multiplier": 1.0}


def arrays_of(run: Path) -> dict[str, Any]:
    """What a run and its clients have released, and its measures."""
    arrays = {}
    for folder in [run, *sorted(run.glob("clients/*/ledger/releases"))]:  # files are named after all settings
        files = sorted(
            folder.glob("*.npz" if folder != run else "release.npz"), key=lambda path: path.stat().st_mtime_ns
        )
        for number, path in enumerate(files):
            arrays |= {f"{folder}/{number}/{key}".removeprefix(str(run)): a for key, a in read_arrays(path).items()}
    metrics = json.loads((run / "result.json").read_text())["metrics"]
    return arrays | {key: value for key, value in metrics.items() if key.endswith("accuracy")}


@pytest.mark.slow
@pytest.mark.parametrize("name", all_methods())
def test_a_run_is_the_same_whatever_they_are(name: str, tmp_path: Path) -> None:
    kind = get_method(name).settings
    models = TORCH if name in SHARED_NETWORK else LINEAR
    if name in OWN_NETWORK:
        models = {"client_models": OWN_NETWORK[name]}
    exact = {"sigma": 0.0} if name == "fedkt" else {}  # no noise, unless epsilon is given
    settings = build(kind, fitting(kind, {**WORLD, **models, **GIVEN, **exact}))
    changes = dict(others(settings))
    assert {"alpha", "classes_per_client"} <= changes.keys()
    for folder, values in (("one", {}), ("other", changes)):
        run_here(name, build(kind, settings.to_dict(), values), tmp_path / folder)
    own, its = (arrays_of(tmp_path / folder) for folder in ("one", "other"))
    assert own and own.keys() == its.keys()
    assert [key for key in own if not np.array_equal(own[key], its[key])] == [], changes


@pytest.mark.parametrize(
    ("values", "unread"),
    [
        ({}, {"epochs": "a client's model trains in epochs"}),
        ({"client_models": ("knn", "mlp")}, {}),
        ({"client_models": ("knn", "own.package:Model")}, {}),
        ({"dataset": "sites"}, {}),
    ],
)
def test_epochs_are_read_where_a_model_may_train_in_them(values: dict[str, Any], unread: dict[str, str]) -> None:
    settings = build(PateSettings, {"client_models": ("logistic-regression(C=0.5)", "random-forest")}, values)
    assert {name: words for name, words in settings.unread().items() if name == "epochs"} == unread
    assert ("epochs" in settings.headline()) == (not unread)


def test_partitions_of_other_packages_may_read_anything() -> None:
    for scheme, unread in (
        ("iid", {"alpha", "classes_per_client"}),
        ("dirichlet", {"classes_per_client"}),
        ("own.package:deal", set()),
    ):
        assert build(Federation, {"partition": scheme}).unread().keys() == unread


def test_a_given_sigma_needs_no_target() -> None:
    settings = build(PateSettings, {"sigma": 2.0})
    assert settings.unread()["epsilon"] == "sigma=0" and "epsilon" not in settings.headline()
    assert "delta" not in settings.unread()
    assert "delta" in build(PateSettings, {"epsilon": math.inf}).unread()


def test_whoever_names_one_is_told(tmp_path: Path) -> None:
    settings = resolve(
        "pate-fl", settings_types(get_method("pate-fl")), values={**QUICK_OWN, "epochs": 3, "spread": 0.5}
    )
    assert without_effect(settings, ["epochs", "spread", "clients"]) == [
        "epochs=3 has no effect here: it is read only if a client's model trains in epochs"
    ]
    with pytest.warns(UserWarning, match=r"^epochs=3 has no effect here"):
        result = fb.run("pate-fl", out=tmp_path / "run", epochs=3, **QUICK_RUN)
    assert result.values["unread"]["epochs"] == "a client's model trains in epochs"
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Settings that this run does not read" in page
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fb.run("pate-fl", out=tmp_path / "other", **QUICK_RUN)


QUICK_OWN = {name: value for name, value in QUICK_RUN.items() if name != "progress"}


@pytest.mark.parametrize("preset", preset_names())
def test_a_preset_names_none_for_its_own_method(preset: str) -> None:
    experiment = load_preset(preset)
    for name, own in experiment.by_method.items():
        settings = resolve(name, settings_types(get_method(name)), preset=preset)
        assert not without_effect(settings, own), (preset, name)
