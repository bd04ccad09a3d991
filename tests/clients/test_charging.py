"""What every client inherits: look, charge, then read; all parts charged, with noise of their own; blank, not refused.

The method here is as small as one can be, so that each step of the order is seen by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from fedballot.clients.base import BallotClient
from fedballot.clients.workspace import Workspace
from fedballot.core.errors import RunError
from fedballot.core.folders import ClientFolder
from fedballot.core.setting import setting
from fedballot.datasets.examples import Examples
from fedballot.datasets.federation import FederatedData
from fedballot.privacy import accounting
from fedballot.privacy.accounting import GaussianCost
from fedballot.privacy.guarantee import SELF, TRUSTED_AGGREGATOR, Trust, Unit
from fedballot.privacy.ledger.ledger import Account, Ledger
from fedballot.privacy.mechanism import Composition, Exact, Facts, Mechanism, unprotected
from fedballot.privacy.noise.randomness import NoiseSource
from fedballot.settings.parts import CommonSettings

COST = GaussianCost(0.1)
ROWS = [np.arange(3, dtype=np.int32)]


@dataclass(frozen=True)
class Veiled(Mechanism):
    """A count under noise of 64 bits."""

    def cost(self, unit: Unit = "record", records_per_person: int = 1) -> GaussianCost:
        return COST

    def release(self, exact: int, noise: NoiseSource) -> np.ndarray:
        return np.array([exact], dtype=np.uint64) + noise.words(1)


@dataclass(frozen=True)
class CentralCount(Veiled):
    """A count that the server, which clients trust, adds the noise to."""

    central: ClassVar[bool] = True


@dataclass(frozen=True)
class CountSettings(CommonSettings):
    """Settings of a method that tells two noisy counts."""

    scale: float = setting(1.0, "what counts are multiplied by", low=0, site_limit=(0.0, 1.0))
    noise_seed: int | None = setting(None, "seed the noise, for tests", site_limit=())

    @property
    def mechanisms(self) -> Mapping[str, Mechanism]:
        return {"all": Veiled(), "zeros": Veiled()}

    @property
    def trust(self) -> Trust:
        return SELF

    def composition(self, facts: Facts) -> Composition:
        stated: dict[str, Any] = {"seeded": self.noise_seed is not None, "trust": self.trust}
        return Composition(self.mechanisms, "noisy counts", "record", "replace-one", 1e-5, **stated)


class CountClient(BallotClient[CountSettings]):
    """A client that tells how many records it has, and how many of class 0."""

    def question(self, arrays: list[np.ndarray], config: dict[str, Any]) -> int:
        return int(config["round"])

    def exact(self, question: int) -> dict[str, int]:
        y = self.workspace.private().y
        return {"all": len(y), "zeros": int((y == 0).sum())}

    def blank(self, question: int) -> dict[str, int]:
        return {"all": 0, "zeros": 0}

    def pack(self, question: int, release: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        return list(release.values())


class OtherClient(CountClient):
    """Another method with the same settings."""


def settings_of(kind: type[CountSettings]) -> CountSettings:
    return kind(dataset="digits", clients=2)


def fails() -> Examples:
    raise ValueError("patient 17")


class Asked:
    """A client with a ledger of its own, and what it was asked."""

    def __init__(self, folder: Path) -> None:
        x = np.zeros((4, 2), np.float32)
        own = Examples(x, np.array([0, 0, 1, 1]))
        parts = (np.arange(4),) * 2
        data = FederatedData(
            classes=("a", "b"), private=own, parts=parts, public_x=x, public_y=own.y, test_x=x, test_y=own.y,
            public_fingerprint="sha256:1", group_names=(),
        )  # fmt: skip
        self.ledger = Ledger(folder / "own", Account("site 0", "its records", "record", "replace-one", 1.0, 1e-5))
        settings = settings_of(CountSettings)
        self.workspace = Workspace(
            0, settings, data, ClientFolder(folder / "client"), "cpu", self.ledger, version="one"
        )

    def ask(
        self,
        kind: type[CountClient] = CountClient,
        arrays: list[np.ndarray] = ROWS,
        name: str = "run/1",
        **changes: Any,
    ) -> tuple[list[np.ndarray], dict[str, Any]]:
        config = {"request": name, "round": 1, "fingerprint": "sha256:1"}
        config |= {key: changes.pop(key) for key in list(changes) if key in config}
        found, _, metrics = kind(replace(self.workspace, **changes)).fit(arrays, config)
        return found, metrics

    def kinds(self) -> list[str]:
        return [line["kind"] for line in self.ledger.lines()]


@pytest.fixture
def asked(tmp_path: Path) -> Asked:
    return Asked(tmp_path)


def test_records_are_read_once_the_charge_is_on_disk_and_never_again(asked: Asked) -> None:
    seen = []

    def reads() -> Examples:
        seen.append(asked.kinds())
        return asked.workspace.data.private

    first, metrics = asked.ask(read=reads)
    assert metrics["refused"] == "" and seen == [["open", "charge"]]
    again, _ = asked.ask(read=reads)
    assert [a.tobytes() for a in again] == [a.tobytes() for a in first] and len(seen) == 1
    assert asked.ledger.costs() == [COST, COST]


def test_a_refusal_for_the_budget_comes_before_records_are_read(asked: Asked) -> None:
    asked.ledger = Ledger(asked.ledger.folder.parent / "small", replace(asked.ledger.account, epsilon=0.1))
    read: list[int] = []
    arrays, metrics = asked.ask(ledger=asked.ledger, read=lambda: read.append(1))
    assert (arrays, metrics["refused"], read, asked.kinds()) == ([], "budget", [], ["open"])


CHANGES: dict[str, dict[str, Any]] = {
    "another method": {"kind": OtherClient},
    "other settings": {"settings": {"scale": 0.5}},
    "other records": {"version": "two"},
    "another round": {"round": 2},
    "another public set": {"fingerprint": "sha256:2"},
    "another number": {"arrays": [np.array([0, 1, 3], np.int32)]},
    "another order": {"arrays": [np.array([1, 0, 2], np.int32)]},
    "another dtype": {"arrays": [np.arange(3, dtype=np.uint32)]},
    "another shape": {"arrays": [np.arange(3, dtype=np.int32)[None]]},
    "a second array": {"arrays": [*ROWS, np.ones(1)]},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_whatever_differs_is_another_question(asked: Asked, change: dict[str, Any]) -> None:
    assert asked.ask()[1]["refused"] == ""
    change = dict(change)
    if "settings" in change:
        change["settings"] = replace(asked.workspace.settings, **change["settings"])
    if "fingerprint" in change:
        change["data"] = replace(asked.workspace.data, public_fingerprint=change["fingerprint"])
    arrays, metrics = asked.ask(**change)
    assert (arrays, metrics["refused"], asked.kinds()) == ([], "request", ["open", "charge", "release"])


def test_how_a_machine_runs_is_no_part_of_a_question(asked: Asked) -> None:
    first, _ = asked.ask()
    changed = replace(asked.workspace.settings, workers=7, public_dataset="elsewhere.npz")
    assert [a.tobytes() for a in asked.ask(settings=changed)[0]] == [a.tobytes() for a in first]


def test_a_failure_is_charged_and_answered_with_noise(asked: Asked) -> None:
    draws = []
    for name in ("run/1", "run/2"):
        arrays, metrics = asked.ask(name=name, read=fails)
        assert (metrics["refused"], metrics["detail"]) == ("", "") and len(arrays) == 2
        draws += [int(array[0]) for array in arrays]
    assert len(set(draws)) == 4 and min(draws) > 2**20  # noise of 64 bits: once in 10^13 below that
    assert asked.ledger.costs() == [COST] * 4
    assert "patient 17" in (asked.workspace.folder.path / "errors.txt").read_text()


def test_an_error_before_the_charge_tells_its_type_only(asked: Asked) -> None:
    class Breaks(CountClient):
        def question(self, arrays: list[np.ndarray], config: dict[str, Any]) -> int:
            raise ValueError("patient 17")

    arrays, metrics = asked.ask(Breaks)
    assert (arrays, metrics["refused"]) == ([], "raised") and "17" not in metrics["detail"]


def test_work_that_takes_too_long_is_answered_blank(asked: Asked) -> None:
    @contextmanager
    def over() -> Any:
        yield
        raise RunError("the work took longer than it may")

    arrays, metrics = asked.ask(limit=over)
    assert len(arrays) == 2 and metrics["refused"] == ""
    assert asked.workspace.folder.blank.exists() and "RunError" in asked.workspace.folder.blank.read_text()


@dataclass(frozen=True)
class HalfSettings(CountSettings):
    """One of the two counts leaves as it is."""

    @property
    def mechanisms(self) -> Mapping[str, Mechanism]:
        return {"all": Veiled(), "zeros": Exact()}


def test_a_part_that_costs_nothing_does_not_leave_a_site_beside_one_that_is_paid_for(asked: Asked) -> None:
    half = settings_of(HalfSettings)
    arrays, metrics = asked.ask(settings=half)
    assert (arrays, metrics["refused"], asked.kinds()) == ([], "policy", ["open"]) and "zeros" in metrics["detail"]
    arrays, metrics = asked.ask(settings=half, ledger=None)  # a simulation may ask for it, and its ledger says so
    assert metrics["refused"] == "" and arrays[1] == 2
    [charge] = [line for line in Ledger(asked.workspace.folder.path / "ledger").lines() if line["kind"] == "charge"]
    assert charge["uncharged"] == ["zeros"] and list(charge["costs"]) == ["all"]


def test_a_failure_is_no_blank_answer_where_a_part_has_no_guarantee(asked: Asked) -> None:
    """Nothing is promised, so that a blank answer would hide the fault for nothing."""
    arrays, metrics = asked.ask(settings=settings_of(HalfSettings), ledger=None, read=fails)
    assert (arrays, metrics["refused"]) == ([], "raised") and not asked.workspace.folder.blank.exists()


@dataclass(frozen=True)
class FreeSettings(CountSettings):
    """Nothing is promised."""

    def composition(self, facts: Facts) -> Composition:
        return unprotected("Counts without noise")


def test_an_answer_without_a_guarantee_does_not_leave_a_site(asked: Asked) -> None:
    read: list[int] = []
    arrays, metrics = asked.ask(settings=settings_of(FreeSettings), read=lambda: read.append(1))
    assert (arrays, metrics["refused"], read, asked.kinds()) == ([], "policy", [], ["open"])


@dataclass(frozen=True)
class TrustingSettings(CountSettings):
    """The server is trusted to show no single answer."""

    @property
    def trust(self) -> Trust:
        return TRUSTED_AGGREGATOR


@pytest.mark.parametrize(("trusts", "masks", "refused"), [(True, True, "policy"), (True, False, ""), (False, True, "")])
def test_what_needs_a_trusted_server_does_not_leave_a_site_that_trusts_masks_only(
    asked: Asked, trusts: bool, masks: bool, refused: str
) -> None:
    kind = TrustingSettings if trusts else CountSettings
    arrays, metrics = asked.ask(settings=settings_of(kind), masks_only=masks)
    assert (metrics["refused"], len(arrays)) == (refused, 0 if refused else 2)


@dataclass(frozen=True)
class CentralSettings(TrustingSettings):
    """The server adds the noise."""

    @property
    def mechanisms(self) -> Mapping[str, Mechanism]:
        return {"all": CentralCount(), "zeros": CentralCount()}


def test_what_the_server_adds_the_noise_to_leaves_as_it_is_and_is_charged(asked: Asked) -> None:
    arrays, metrics = asked.ask(settings=settings_of(CentralSettings))
    assert metrics["refused"] == "" and [array.tolist() for array in arrays] == [4, 2]
    assert asked.ledger.costs() == [COST, COST] and asked.kinds() == ["open", "charge", "release"]


def test_a_part_of_the_composition_that_a_method_does_not_make_is_named(asked: Asked) -> None:
    """The charge has been made, and what is missing may depend on records: the answer is blank, the folder says why."""

    class Forgets(CountClient):
        def exact(self, question: int) -> dict[str, int]:
            return {"all": super().exact(question)["all"]}

    arrays, metrics = asked.ask(Forgets)
    assert metrics["refused"] == "" and len(arrays) == 2 and min(int(array[0]) for array in arrays) > 2**20
    words = (asked.workspace.folder.path / "errors.txt").read_text()
    assert "the composition names a part 'zeros', which the answer lacks" in words
    assert asked.workspace.folder.blank.exists()


def test_another_public_set_is_refused(asked: Asked) -> None:
    arrays, metrics = asked.ask(fingerprint="sha256:2")
    assert (arrays, metrics["refused"], asked.kinds()) == ([], "fingerprint", ["open"])


@pytest.mark.parametrize("other", [("record", "add-remove"), ("client", "replace-one"), ("client", "zero-out")])
def test_a_ledger_of_another_unit_or_adjacency_is_not_charged(asked: Asked, other: tuple[str, str]) -> None:
    account = replace(asked.ledger.account, unit=other[0], adjacency=other[1])  # type: ignore[arg-type]
    ledger = Ledger(asked.ledger.folder.parent / "other", account)
    arrays, metrics = asked.ask(ledger=ledger)
    assert (arrays, metrics["refused"], ledger.costs()) == ([], "policy", [])


def test_seeded_noise_is_each_clients_own_and_the_ledger_says_that_it_protects_nobody(asked: Asked) -> None:
    seeded = replace(asked.workspace.settings, noise_seed=1)
    ask: Callable[..., Any] = lambda client_id, name: asked.ask(name=name, settings=seeded, client_id=client_id)[0]  # noqa: E731
    first, other = ask(0, "run/1"), ask(1, "run/2")
    assert first[0][0] != other[0][0]
    assert [line.get("seeded") for line in asked.ledger.lines() if line["kind"] == "charge"] == [True, True]


def test_a_run_of_its_own_has_just_the_budget_of_its_composition(asked: Asked) -> None:
    assert asked.ask(ledger=None)[1]["refused"] == ""
    account = Ledger(asked.workspace.folder.path / "ledger").account
    assert (account.unit, account.adjacency, account.delta) == ("record", "replace-one", 1e-5)
    spent = accounting.epsilon([COST, COST], 1e-5)
    assert spent <= account.epsilon == pytest.approx(spent, rel=1e-6)
    assert asked.ask(ledger=None, name="run/2")[1]["refused"] == "budget"
