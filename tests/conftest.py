"""What many tests share: small settings on real digits."""

from __future__ import annotations

import os

import hypothesis
import pytest

os.environ["COLUMNS"] = "160"  # tables wrap alike wherever the tests run

from fedballot.clients.pate import PateSettings
from fedballot.settings import build

hypothesis.settings.register_profile("no-deadline", deadline=None)  # a shared machine stalls now and then
hypothesis.settings.load_profile("no-deadline")

SMALL = {
    "dataset": "digits",
    "agents": 8,
    "private_size": 800,
    "public_size": 300,
    "test_size": 300,
    "client_models": "logistic-regression",
    "server_model": "logistic-regression",
    "workers": 2,
}


@pytest.fixture
def small() -> PateSettings:
    """Eight agents with 100 real 8x8 digits each, scikit-learn models, a budget at which it works."""
    return build(PateSettings, SMALL, {"epsilon": 20, "delta": 1e-3})


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """For `-n 2 --dist loadgroup`: who shares fixtures stays together, and files with slow tests come first."""
    groups = [_group(item) for item in items]
    slow = {group for group, item in zip(groups, items, strict=True) if item.get_closest_marker("slow")}
    for group, item in zip(groups, items, strict=True):
        item.add_marker(pytest.mark.xdist_group(group))
    items.sort(key=lambda item: _group(item) not in slow)


def _group(item: pytest.Item) -> str:
    """The file; or one group for all that start a federation of processes: two at once are too much for two cores."""
    deploy = item.path.parent.name == "deploy" and item.get_closest_marker("slow")
    return "federation" if deploy or "federation" in getattr(item, "fixturenames", ()) else item.path.stem


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests have recorded as ``seen``: figures that the pages quote."""
    for report in terminalreporter.getreports("passed"):
        for name, words in report.user_properties:
            if name == "seen" and report.when == "call":
                terminalreporter.write_line(f"SEEN {report.nodeid.rpartition('::')[2]}: {words}")
