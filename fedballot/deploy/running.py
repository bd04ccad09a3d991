"""The runs that a server was given: a record of each in ``runs/`` of its folder, beside what Flower says of them."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedballot.core.errors import DataError, SettingsError
from fedballot.core.files import read_json, write_json
from fedballot.deploy.flower import ask
from fedballot.deploy.server import ServerFolder

WORDS = {"finished:completed": "done", "finished:failed": "failed", "finished:stopped": "stopped"}


@dataclass(frozen=True)
class Submission:
    """What was asked of the server.

    Attributes
    ----------
    run_id : Flower's number of the run.
    method : its name.
    out : the run's folder.
    epsilon : as asked, None where the method has none.
    submitted : when, in UTC.
    request : the run's own name, by which sites know it.
    """

    run_id: str
    method: str
    out: str
    epsilon: float | None
    submitted: str
    request: str = ""


@dataclass(frozen=True)
class RunStatus:
    """A run as the server sees it now.

    Attributes
    ----------
    status : ``pending``, ``starting``, ``running``, ``done``, ``failed`` or ``stopped``.
    """

    run_id: str
    method: str
    out: str
    epsilon: float | None
    submitted: str
    request: str
    status: str
    details: str

    @property
    def ended(self) -> bool:
        """Whether it runs no more."""
        return self.status not in ("pending", "starting", "running")


@contextmanager
def one_at_a_time(server: ServerFolder) -> Iterator[None]:
    """Keep other submissions to this server waiting, in the block: two at once must not both find no run under way."""
    with (server.path / "submit.lock").open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def note(
    server: ServerFolder, run_id: str, method: str, out: Path, epsilon: float | None, request: str = ""
) -> Submission:
    """Keep what was asked."""
    submitted = datetime.now(UTC).isoformat(timespec="seconds")
    submission = Submission(run_id, method, str(out), epsilon, submitted, request)
    write_json(_folder(server) / f"{run_id}.json", asdict(submission))
    return submission


def submissions(server: ServerFolder) -> dict[str, Submission]:
    """All that were kept, by number.

    Raises
    ------
    DataError
        If a record is damaged.
    """
    records = {}
    for path in sorted(_folder(server).glob("*.json")):
        try:
            record = Submission(**read_json(path))
        except TypeError as error:
            raise DataError(f"{path}: is no record of a run; move it away") from error
        records[record.run_id] = record
    return records


def run_list(server: ServerFolder) -> list[RunStatus]:
    """All runs of the server, the newest first.

    Raises
    ------
    RunError
        If the server does not answer.
    """
    return statuses(submissions(server), ask(server.home, "list")["runs"])


def statuses(kept: Mapping[str, Submission], runs: list[dict[str, Any]]) -> list[RunStatus]:
    """Our records and what Flower's ``list`` says; a run that was started otherwise has no method and folder here."""
    found = []
    for run in runs:
        number = str(run["run-id"])
        record = kept.get(number) or Submission(number, "?", "", None, str(run["pending-at"]))
        status, details = str(run["status"]), str(run.get("status-details") or "")
        found.append(
            RunStatus(**asdict(record), status=WORDS.get(status, status), details="" if details == "N/A" else details)
        )
    return sorted(found, key=lambda run: run.submitted, reverse=True)


def under_way(server: ServerFolder, out: Path) -> str | None:
    """The number of the run on this folder that has not ended, if there is one.

    Raises
    ------
    RunError
        If the server does not answer.
    """
    there = [record for record in submissions(server).values() if record.out == str(out)]
    if not there:
        return None
    latest = max(there, key=lambda record: record.submitted)
    return next((run.run_id for run in run_list(server) if run.run_id == latest.run_id and not run.ended), None)


def stop_run(server: ServerFolder, run_id: str) -> None:
    """Have the server stop a run that is pending or running.

    Raises
    ------
    SettingsError
        If there is no such run, or it has ended.
    RunError
        If the server does not answer or refuses.
    """
    runs = {run.run_id: run for run in run_list(server)}
    if run_id not in runs:
        going = ", ".join(number for number, run in runs.items() if not run.ended) or "none"
        raise SettingsError(f"no run {run_id!r}; those that have not ended: {going}")
    if runs[run_id].ended:
        raise SettingsError(f"run {run_id} has ended ({runs[run_id].status}); there is nothing to stop")
    ask(server.home, "stop", run_id)


def _folder(server: ServerFolder) -> Path:
    return server.path / "runs"
