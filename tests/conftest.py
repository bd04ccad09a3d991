"""What many tests share: small settings on real digits."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import hypothesis
import pytest

os.environ["COLUMNS"] = "160"  # tables wrap alike wherever the tests run

from fedballot.core.setting import Settings, build, names_of
from fedballot.settings.voting import PateSettings

hypothesis.settings.register_profile("no-deadline", deadline=None)  # a shared machine stalls now and then
hypothesis.settings.load_profile("no-deadline")

S = TypeVar("S", bound=Settings)

SMALL = {
    "dataset": "digits",
    "clients": 8,
    "private_size": 800,
    "public_size": 300,
    "test_size": 300,
    "client_models": "logistic-regression",
    "server_model": "logistic-regression",
    "workers": 2,
}

# keywords of a run from Python that ends in a second
QUICK_RUN: dict[str, Any] = {
    "dataset": "digits",
    "clients": 6,
    "private_size": 300,
    "public_size": 60,
    "test_size": 60,
    "client_models": "logistic-regression",
    "server_model": "logistic-regression",
    "abstain": False,
    "workers": 1,
    "progress": False,
}


def fitting(kind: type[Settings], layer: Mapping[str, Any]) -> dict[str, Any]:
    """Of a layer that many methods share, what this one has."""
    return {name: value for name, value in layer.items() if name in names_of(kind)}


def small_settings(kind: type[S], *layers: Mapping[str, Any]) -> S:
    """Settings of a kind: those of ``SMALL`` that it has, then further layers."""
    return build(kind, fitting(kind, SMALL), *layers)


@pytest.fixture
def small() -> PateSettings:
    """Eight clients with 100 real 8x8 digits each, scikit-learn models, a budget at which it works."""
    return build(PateSettings, SMALL, {"epsilon": 20, "delta": 1e-3})


def pytest_configure() -> None:
    """Folders of tests lie in memory where there is enough: ledgers sync each line, on a disk half the time."""
    memory = Path("/dev/shm")
    if os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 4e9:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(memory))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """For `-n 2`: a file stays on one worker, and so do all that run a federation or cluster: two are too much."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _group(nodeid)

    return ByFile(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest group first, then those with slow tests, so that no worker is left with one at the end.

    Tests that share a federation follow each other, after those of the image, which is built meanwhile.
    """
    slow = {_group(item.nodeid) for item in items if item.get_closest_marker("slow")}

    def order(item: pytest.Item) -> tuple[bool, bool, bool]:
        group, shared = _group(item.nodeid), "federation" in getattr(item, "fixturenames", ())
        return group != FEDERATIONS, group == FEDERATIONS and shared, group not in slow

    items.sort(key=order)


FEDERATIONS = "federations"
RUN_ONE = {
    *(f"deploy/test_{name}.py" for name in ("compose", "docs", "faults", "federation", "ledger_site", "namespaces")),
    *(f"deploy/test_{name}.py" for name in ("operations", "secure_site")),
    "apps/test_flwr_run.py",  # a cluster of Ray is as much
    "runs/test_cluster.py",
    "runs/test_flower_apis.py",
}


def _group(nodeid: str) -> str:
    file = nodeid.partition("::")[0]
    return FEDERATIONS if file.removeprefix("tests/") in RUN_ONE else file


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests have recorded as ``seen``: figures that the pages quote."""
    for report in terminalreporter.getreports("passed"):
        for name, words in report.user_properties:
            if name == "seen" and report.when == "call":
                terminalreporter.write_line(f"SEEN {report.nodeid.rpartition('::')[2]}: {words}")
