"""A method has only settings that its client, its Strategy or their learners read: each one is read in a real run."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest

from fedballot.core.setting import Settings, build, setting
from fedballot.methods.registry import all_methods, get_method
from fedballot.settings.parts import CommonSettings, Run
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
}
LINEAR = {"client_models": "logistic-regression", "server_model": "logistic-regression"}
TORCH = {"client_models": "linear-torch"}
SECURE = {"clients": 5, "min_clients": 4, "secure_aggregation": True}
# what a first run does not come by, in a second one
FURTHER: dict[str, tuple[dict[str, Any], ...]] = {
    "pate-fl": (SECURE,),
    "private-knn-fl": (SECURE,),
    "fedmd": (TORCH,),
    "fedmd-nfdp": (TORCH,),
    "fedmd-ldp": (TORCH, TORCH | {"share": "logits"}),
    "fedkd": ({"distill_loss": "kl"},),
    "fedkd-dp": (SECURE, {"distill_loss": "kl"}),
    "fedauxfdp": ({"head": "logistic"}, {"embedding": "pca"}),
    "fedauxfdp-sum": (SECURE,),
}
SHARED_NETWORK = {"fedavg", "fedprox", "fedavgm", "feddf", "dp-fedavg", "dp-fedsgd"}
OWN_NETWORK = {"fedgen": "mlp-torch", "fedaux": "mlp-torch"}  # whose features something else learns from


class Reader:
    """Which settings are read one by one; what takes them all, such as a comparison, reads none of them."""

    WHOLE = ("__post_init__", "__hash__", "__eq__", "__repr__", "to_dict", "headline")

    def __init__(self) -> None:
        self.names: set[str] = set()

    def watch(self, settings: Settings) -> Any:
        """The same settings, whose readers are noted."""
        reader, kind, pauses = self, type(settings), []
        fields = {field.name for field in dataclasses.fields(settings)}

        def __getattribute__(self: Any, name: str) -> Any:
            if name in fields and not pauses:
                reader.names.add(name)
            return object.__getattribute__(self, name)

        def unseen(name: str) -> Any:
            def call(self: Any, *args: Any, **given: Any) -> Any:
                pauses.append(name)
                try:
                    return getattr(kind, name)(self, *args, **given)
                finally:
                    pauses.pop()

            return call

        body = {name: unseen(name) for name in self.WHOLE}
        watched = type(kind.__name__, (kind,), {**body, "__getattribute__": __getattribute__})
        return watched(**{name: getattr(settings, name) for name in fields})


def runs(name: str) -> Iterator[dict[str, Any]]:
    """Settings of the runs in which each of a method's settings is to be read."""
    models = TORCH if name in SHARED_NETWORK else {"client_models": OWN_NETWORK[name]} if name in OWN_NETWORK else LINEAR
    for further in ({}, *FURTHER.get(name, ())):
        yield {**WORLD, **models, **further}


@pytest.mark.slow
@pytest.mark.parametrize("name", all_methods())
def test_each_setting_of_a_method_is_read(name, tmp_path):
    kind, reader = get_method(name).settings, Reader()
    for number, values in enumerate(runs(name)):
        run_here(name, reader.watch(build(kind, fitting(kind, values))), tmp_path / str(number))
    machine = {field.name for field in dataclasses.fields(Run)}  # which the engine reads, whatever the method
    unread = {field.name for field in dataclasses.fields(kind)} - machine - reader.names
    assert not unread, f"nobody reads {', '.join(sorted(unread))} of {name}: drop the part that declares it"


def test_a_setting_that_nothing_reads_is_seen(tmp_path):
    @dataclasses.dataclass(frozen=True)
    class Idle(CommonSettings):
        idle: int = setting(1, "nothing")

        @property
        def twice(self) -> int:
            return 2 * self.clients

    reader = Reader()
    settings = reader.watch(Idle())
    assert settings == settings and settings.to_dict()["idle"] == 1 and reader.names == set()
    assert settings.twice == 200 and reader.names == {"clients"}
