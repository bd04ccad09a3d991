"""A method has only settings that its client, its Strategy or their learners read: each one is read in a real run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fedballot.core.setting import names_of
from fedballot.methods.registry import all_methods, get_method
from fedballot.runs.trial import Trial, recorded
from fedballot.settings.parts import Run
from tests.conftest import fitting
from tests.inprocess import run_here

WORLD = {
    "dataset": "digits",
    "clients": 3,
    "private_size": 150,
    "public_size": 60,
    "test_size": 60,
    "epochs": 1,
    "server_epochs": 1,
    "rounds": 2,
    "pretrain_epochs": 1,
    "extractor": "pca",
    "components": 8,
    "generator_steps": 1,
    "device": "cpu",
    "queries": 20,
}
LINEAR = {"client_models": "logistic-regression", "server_model": "logistic-regression"}
TORCH = {"client_models": "linear-torch"}
TRIMMED = {"aggregation": "trimmed-mean"}
SECURE = {"clients": 5, "min_clients": 4, "secure_aggregation": True}
NEIGHBOURS = {"student": "propagated", "graph_features": "none+pca"}
# what a first run does not come by, in a second one
FURTHER: dict[str, tuple[dict[str, Any], ...]] = {
    "pate-fl": (SECURE,),
    "private-knn-fl": (SECURE,),
    "fedmd": (TORCH | TRIMMED | {"share": "softmax"},),
    "fedmd-nfdp": (TORCH,),
    "fedmd-ldp": (TORCH, TORCH | {"share": "logits"}),
    "ds-fl": (TORCH | {"client_features": "none+pca"},),
    "selective-fd": (TORCH | {"client_features": "none+pca", "leave_out": 0.0, "ambiguity_limit": 1.0},),
    "fedkt": (SECURE | {"epsilon": 20.0, "client_features": "none+pca"},),
    "fedkd": ({"distill_loss": "kl"}, TRIMMED | {"weights": "equal"}, NEIGHBOURS),
    "fedkd-dp": (SECURE, {"distill_loss": "kl"}, NEIGHBOURS),
    "fedauxfdp": ({"head": "logistic"}, {"embedding": "pca"}),
    "fedauxfdp-sum": (SECURE, {"embedding": "pca", "dimension": 6}),
    "poll": (SECURE,),
    **dict.fromkeys(("fedavg", "fedprox", "fedavgm"), (TORCH | TRIMMED,)),
}
SHARED_NETWORK = {"fedavg", "fedprox", "fedavgm", "feddf", "dp-fedavg", "dp-fedsgd"}
OWN_NETWORK = {"fedgen": "mlp-torch", "fedaux": "mlp-torch"}  # whose features something else learns from


def runs(name: str) -> Iterator[dict[str, Any]]:
    """Settings of the runs in which each of a method's settings is to be read."""
    models = (
        TORCH if name in SHARED_NETWORK else {"client_models": OWN_NETWORK[name]} if name in OWN_NETWORK else LINEAR
    )
    for further in ({}, *FURTHER.get(name, ())):
        yield {**WORLD, **models, **further}


@pytest.mark.slow
@pytest.mark.parametrize("name", all_methods())
def test_each_setting_of_a_method_is_read(name, tmp_path):
    method, names = get_method(name), set[str]()
    for number, values in enumerate(runs(name)):
        trial = Trial(method, fitting(method.settings, values), tmp_path, "settings")
        with recorded(trial) as seen:
            run_here(name, trial.settings, tmp_path / str(number))
        names |= seen
    unread = {*names_of(method.settings)} - {*names_of(Run)} - names  # the engine reads Run, whatever the method
    assert not unread, f"nobody reads {', '.join(sorted(unread))} of {name}: drop the part that declares it"
