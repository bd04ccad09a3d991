"""check_method: our own methods pass it, and a method with a fault in it is told which one, and what to do."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import fedballot
from fedballot import Facts, Mechanism, Method, get_method
from fedballot.clients.fedmd import FedmdClient
from fedballot.clients.pate import PateClient
from fedballot.core.setting import build, setting
from fedballot.methods.registry import all_methods
from fedballot.privacy.accounting import GaussianCost
from fedballot.privacy.mechanism import Composition
from fedballot.privacy.noise.randomness import NoiseSource, os_noise
from fedballot.settings.voting import PateSettings
from fedballot.strategies.fedmd import FedmdStrategy
from fedballot.strategies.voting import VotingStrategy
from fedballot.testing import check_mechanism, check_method

VOTES = {"queries": 20, "sigma": 30}
MODELS = {"queries": 20, "pretrain_epochs": 0, "share": "softmax"}
HEADS = {"extractor": "pca", "components": 20}
TORCH = {"client_models": "mlp-torch"}
NOISY_HEADS = {**HEADS, "epsilon": 5.0}

QUICK: dict[str, dict[str, Any]] = {
    "pate-fl": VOTES,
    "private-knn-fl": {**VOTES, "extractor": "none+l2"},
    "fedmd": MODELS,
    "fedmd-nfdp": {**MODELS, "k": 20},
    "fedmd-ldp": {**MODELS, "epsilon": 50},
    "ds-fl": {"queries": 20},
    "selective-fd": {"queries": 20, "leave_out": 0.0, "ambiguity_limit": 1.0},
    "fedkt": {"queries": 20, "subsets": 2, "epsilon": 50},
    "fedkd": {"queries": 20},
    "fedkd-dp": {"queries": 20, "epsilon": 50},
    "fedauxfdp": NOISY_HEADS,
    "fedauxfdp-sum": NOISY_HEADS,
    "fedd-p": {**NOISY_HEADS, "share": "predictions"},
    "fedavg-p": NOISY_HEADS,
    "fedaux-f": HEADS,
    "poll": {"epsilon": 5.0, "cells": 5},
    "standalone": {},
    "centralized": {},
    "public-only": {},
}
SLOW: dict[str, dict[str, Any]] = {
    "fedaux": {**TORCH, **HEADS},
    "fedavg": TORCH,
    "fedprox": TORCH,
    "fedavgm": TORCH,
    "feddf": TORCH,
    "fedgen": {**TORCH, "generator_steps": 5},
    "dp-fedavg": {**TORCH, "noise_multiplier": 1.0},
    "dp-fedsgd": {**TORCH, "noise_multiplier": 1.0, "rate": 0.5},
}


@pytest.mark.parametrize("name", QUICK)
def test_our_methods_pass(name: str) -> None:
    check_method(get_method(name), **QUICK[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_our_methods_with_networks_pass(name: str) -> None:
    check_method(get_method(name), **SLOW[name])


def test_no_method_is_left_out() -> None:
    ours = [name for name, method in all_methods().items() if method.client_class.__module__.startswith("fedballot.")]
    assert sorted(ours) == sorted([*QUICK, *SLOW])


class Uncharged(PateClient):
    """Answers without its ledger."""

    def release(self, question: Any, asked: Any) -> Any:
        return self.drawn(question, self.composition(question))


class Forgetful(PateClient):
    """Charges itself for one answer what another one costs."""

    def facts(self, question: Any) -> Facts:
        return replace(super().facts(question), classes=3)


class Fragile(PateClient):
    """Has nothing to say when its work fails."""

    def blank(self, question: Any) -> Any:
        return {"votes": self.votes(question)}


class Unseeded(PateClient):
    """Draws noise that no seed moves."""

    def noise(self, part: str, question: Any) -> NoiseSource:
        return os_noise()


class Lacking(PateClient):
    """Leaves out what its composition names."""

    def exact(self, question: Any) -> Any:
        return {}


class Talkative(FedmdClient[Any]):
    """Answers another thing each time."""

    def exact(self, question: Any) -> dict[str, Any]:
        logits = super().exact(question)["predictions"]
        return {"predictions": logits + np.random.default_rng().normal(size=logits.shape)}


class Gullible(PateClient):
    """Takes any request for one about the whole pool."""

    def question(self, arrays: Any, config: Any) -> Any:
        return np.arange(self.settings.query_count)


class Trusting(VotingStrategy):
    """Believes whatever comes."""

    def read(self, arrays: Any) -> Any:
        return np.asarray(arrays[0]) if arrays else np.zeros(self.form.shape)


class Crashing(VotingStrategy):
    """Raises what no server expects."""

    def read(self, arrays: Any) -> Any:
        return super().read([arrays[0]])


class Amnesiac(FedmdStrategy[Any]):
    """Forgets its consensus when it is taken up."""

    def restore(self, state: Mapping[str, Any]) -> None:
        self.consensus = np.full(self.shape, 1 / self.shape[1])


@dataclass(frozen=True)
class Unread(PateSettings):
    """A setting too many."""

    warmth: float = setting(1.0, "how warm it is", site_limit=(0.0, 1.0))


@dataclass(frozen=True)
class Mute(PateSettings):
    """A setting that nobody explains."""

    warmth: float = setting(1.0, " ")


@dataclass(frozen=True)
class Unstamped(PateSettings):
    """Calls seeded noise proved."""

    def composition(self, facts: Facts) -> Composition:
        stated = super().composition(facts)
        return replace(stated, stated=lambda: [replace(one, status="proved") for one in stated.guarantees()])


@dataclass(frozen=True)
class Varying(PateSettings):
    """Costs what the facts say."""

    def composition(self, facts: Facts) -> Composition:
        return (
            super().composition(facts)
            if facts.classes == 10
            else replace(self, sigma=60.0).composition(replace(facts, classes=10))
        )


class Plain(PateSettings):
    """A setting that is none."""

    warmth: float = setting(1.0, "how warm it is")


@dataclass(frozen=True)
class Undeclared(PateSettings):
    """A setting that says nothing of itself."""

    warmth: float = 1.0


@dataclass(frozen=True)
class Shadowing(PateSettings):
    """Calls another thing by a name that every method has."""

    clients: float = setting(1.0, "share of the clients")  # type: ignore[assignment]


PATE, FEDMD = get_method("pate-fl"), get_method("fedmd")
FAULTY: dict[str, tuple[Method, dict[str, Any], str]] = {
    "uncharged": (replace(PATE, client=Uncharged), VOTES, "Charge: nothing was charged"),
    "other cost": (replace(PATE, client=Forgetful, settings=Varying), VOTES, "Charge: .* was charged .* costs"),
    "no blank answer": (replace(PATE, client=Fragile), VOTES, "Failure: it refused: "),
    "another answer": (replace(FEDMD, client=Talkative), MODELS, "Same request, same bytes: the second answer differs"),
    "any request": (replace(PATE, client=Gullible), VOTES, "Wrong requests: a request without its arrays was accepted"),
    "any array": (replace(PATE, strategy=Trusting), VOTES, "Bad arrays: no array was accepted"),
    "a crash": (replace(PATE, strategy=Crashing), VOTES, "Bad arrays: no array: IndexError"),
    "no memory": (replace(FEDMD, strategy=Amnesiac), MODELS, "Resume: .* differ"),
    "unread": (replace(PATE, settings=Unread), VOTES, "Unread settings: nobody reads warmth"),
    "no help": (replace(PATE, settings=Mute), VOTES, "Settings and words: warmth has no help text"),
    "no stamp": (replace(PATE, settings=Unstamped), VOTES, "Noise: noise_seed=1, but guarantees say"),
    "no seed": (replace(PATE, client=Unseeded), VOTES, "Noise: one seed gave two releases"),
    "no dataclass": (replace(PATE, settings=Plain), VOTES, "Entry: Plain is no dataclass"),
    "no declaration": (replace(PATE, settings=Undeclared), VOTES, "Entry: warmth has no declaration"),
    "a common name": (replace(PATE, settings=Shadowing), VOTES, "Entry: clients is a setting of every method"),
    "no name": (replace(PATE, name="pate fl"), VOTES, "Entry: the name 'pate fl' is hard to type"),
    "another class": (replace(PATE, strategy=PateClient), VOTES, "Entry: strategy=PateClient is no BallotStrategy"),  # type: ignore[arg-type]
    "masks": (PATE, {**VOTES, "secure_aggregation": True}, "Entry: an answer under masks tells nothing"),
    "no words": (replace(PATE, sends=""), VOTES, "Settings and words: sends is empty"),
}


@pytest.mark.parametrize("fault", FAULTY)
def test_a_fault_is_named_with_what_to_do(fault: str) -> None:
    method, values, words = FAULTY[fault]
    with pytest.raises(AssertionError, match=rf"(?s)^{method.name}: {words}") as raised:
        check_method(method, **values)
    assert "To mend it, " in str(raised.value)


def test_what_went_wrong_at_a_client_is_told() -> None:
    with pytest.raises(AssertionError, match=r"blank.*At a client: KeyError: .*names a part 'votes', which the answer"):
        check_method(replace(PATE, client=Lacking), **VOTES)


@dataclass(frozen=True)
class Doubling(Mechanism):
    """Gaussian noise on a vector, with a fault to choose."""

    fault: str = ""

    def cost(self, unit: Any, records_per_person: int = 1) -> GaussianCost:
        return GaussianCost(1.0)

    def release(self, exact: Any, noise: Any) -> Any:
        if self.fault == "changes":
            exact += 1
        if self.fault == "own":
            return exact + np.random.default_rng().normal(size=exact.shape)
        if self.fault == "none":
            return exact
        drawn = noise.words(exact.size).astype(float)
        return exact + (0 * drawn if self.fault == "ignored" else drawn)


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("changes", "changes its argument"),
        ("own", "randomness of its own"),
        ("none", "draws nothing"),
        ("ignored", "the same under all noise"),
    ],
)
def test_a_faulty_mechanism_is_found(fault: str, words: str) -> None:
    check_mechanism(Doubling(), np.zeros(5))
    with pytest.raises(AssertionError, match=f"Doubling: .*{words}"):
        check_mechanism(Doubling(fault), np.zeros(5))


def test_our_mechanisms_pass() -> None:
    votes = np.eye(10, dtype=np.int8)[np.arange(20) % 10]
    votes[11:] = 0
    (part,) = build(PateSettings, VOTES).composition(Facts(classes=10)).parts.values()
    check_mechanism(part, votes)
    (part,) = build(get_method("fedmd-ldp").settings, MODELS).composition(Facts(classes=10)).parts.values()
    check_mechanism(part, np.random.default_rng(0).normal(size=(20, 10)).astype(np.float32))


def test_the_package_is_imported_without_flower_and_torch() -> None:
    code = "import sys, fedballot; print([m for m in ('flwr', 'torch', 'ray', 'numpy') if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_the_public_names_are_there() -> None:
    for name in fedballot.__all__:
        assert getattr(fedballot, name) is not None and name in dir(fedballot)
    assert dataclasses.is_dataclass(fedballot.Composition) and callable(fedballot.simulate)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(fedballot, "nothing")  # noqa: B009
