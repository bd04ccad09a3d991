"""What a node says of itself, asked in this process: the same program, the run's own folder, locks, and data."""

from __future__ import annotations

import dataclasses
import os
import pickle
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fedballot.core.errors import RunError
from fedballot.core.folders import RunFolder
from fedballot.core.setting import build
from fedballot.runs.cluster_node import LOCK, Errand, answer, data_digest, held, report
from fedballot.runs.engine import federated_data, make_client
from fedballot.runs.worker import Job
from fedballot.settings.voting import PateSettings
from fedballot.wire.messages import Reply
from tests.conftest import small_settings


@pytest.fixture
def errand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Errand:
    monkeypatch.setattr(os, "environ", dict(os.environ))  # a worker's own, which an errand changes
    settings = small_settings(PateSettings, {"epsilon": 40})
    folder = RunFolder.open(tmp_path / "run", "pate-fl", settings, resume=False)
    folder.save()
    make = partial(make_client, "pate-fl", settings, folder.path / "clients")
    data = partial(federated_data, settings)
    return Errand(Job(make, folder.log), data, folder.path, folder.request, place=os.getcwd(), data_folder=None)


def said(errand: Errand, **changes: Any) -> Any:
    return report(pickle.dumps(dataclasses.replace(errand, **changes)))


def test_a_node_that_can_serve_leaves_a_mark_and_tells_its_data(errand: Errand) -> None:
    with held(errand.folder):
        found = said(errand)
    assert found.trouble == "" and (errand.folder / "clients" / found.mark).exists()
    assert found.data == data_digest(errand.data())
    other = small_settings(PateSettings, {"epsilon": 40, "seed": 2})
    assert data_digest(federated_data(other)) != found.data


def test_what_is_wrong_is_told_in_words(errand: Errand, tmp_path: Path) -> None:
    with held(errand.folder):
        assert "has fedballot" in said(errand, version="0.0.1").trouble
        assert "another run is in it there" in said(errand, request="b" * 32).trouble
        assert f"does not share the run's folder {tmp_path / 'none'}" in said(errand, folder=tmp_path / "none").trouble
        assert "no such" in said(errand, data=partial(_load, "no such set")).trouble
    assert "takes a lock" in said(errand).trouble
    assert not list(errand.folder.glob("clients/0*"))


def _load(dataset: str) -> Any:
    return federated_data(build(PateSettings, {"dataset": dataset}))


def test_two_processes_do_not_work_on_one_run(errand: Errand) -> None:
    with held(errand.folder), pytest.raises(RunError, match="another process works on this run"), held(errand.folder):
        raise AssertionError("both hold it")
    assert not (errand.folder / LOCK).exists()


def test_a_client_that_fails_says_why_and_the_process_lives(errand: Errand) -> None:
    failing = dataclasses.replace(errand, job=Job(_failing, errand.job.log))
    assert answer(pickle.dumps(failing), "1", [], {}, 60.0) == "RuntimeError: no such client"
    reply = answer(pickle.dumps(errand), "1", [], {"fingerprint": "other"}, 60.0)
    assert isinstance(reply, Reply) and reply.metrics["refused"] == "fingerprint"


def test_a_client_that_takes_too_long_ends_its_process(errand: Errand) -> None:
    slow: Callable[[int], Any] = _sleeping
    child = os.fork()
    if child == 0:
        answer(pickle.dumps(dataclasses.replace(errand, job=Job(slow, errand.job.log))), "0", [], {}, 0.2)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


def _sleeping(number: int) -> Any:
    time.sleep(60)


def _failing(number: int) -> Any:
    raise RuntimeError("no such client")
