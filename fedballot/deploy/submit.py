"""Starting a run on a federation's server, and following it to its result."""

from __future__ import annotations

import json
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedballot.core.errors import DataError, RunError
from fedballot.core.files import check_writable, read_json
from fedballot.core.folders import RunFolder, holds_run
from fedballot.core.progress import Progress
from fedballot.deploy import running
from fedballot.deploy.bundle import write_app
from fedballot.deploy.flower import ask
from fedballot.deploy.server import ServerFolder
from fedballot.methods.registry import get_method
from fedballot.runs.engine import check_learners, open_run
from fedballot.runs.follow import PROGRESS_FILE, Follower, size
from fedballot.runs.run_config import settings_text
from fedballot.settings.parts import CommonSettings

LOOK_S = 0.2  # between looks at the run's folder
ASK_S = 10.0  # between questions to the server, each of which takes it some processor time
SILENCES = 3  # unanswered questions in a row after which the server counts as gone


Identity = tuple[int, int]


@dataclass(frozen=True)
class Submitted:
    """A run that the server has taken.

    Attributes
    ----------
    run_id : Flower's number.
    folder : of the run.
    before : the result file as it was before, by its identity on disk: every write makes a new one.
    request : the run's own name, by which sites know it.
    joined : whether the server had it already, from an earlier command that is gone.
    told : bytes of the progress file before the run, which may begin before `follow` does.
    """

    run_id: str
    folder: Path
    before: Identity | None
    request: str = ""
    joined: bool = False
    told: int | None = None


def submit(
    server: ServerFolder,
    method_name: str,
    settings: CommonSettings,
    out: Path,
    *,
    resume: bool,
    requester: str = "",
    purpose: str = "",
    preset: str | None = None,
) -> Submitted:
    """Hand a run to the server.

    Parameters
    ----------
    server
        The server's folder.
    method_name, settings
        The experiment; public data must be readable on this machine.
    out
        The run's folder, on a disk that the server writes to.
    resume
        Take up the run that is in ``out``: one that the server still has is only followed.
    requester, purpose
        Who asks and what for, for the people of the sites to read.
    preset
        The preset that the settings came from, for the record.

    Raises
    ------
    SettingsError
        If settings or folder cannot work.
    RunError
        If the server does not take the run.
    """
    method = get_method(method_name)
    _ = server.control
    folder = open_run(out, method, settings, resume=resume, preset=preset)
    check_learners(settings, clients=False, taken_up=holds_run(out))
    check_writable(out)
    with running.one_at_a_time(server):
        before = _identity(folder.result)
        if resume and (number := running.under_way(server, out)):
            return Submitted(number, out, before, folder.request, joined=True)
        began, told = not holds_run(out), size(out / PROGRESS_FILE)
        folder.save()  # its name is what the sites know the run by
        try:
            number = _handed_over(server, run_config(method_name, settings, out, server.heads, requester, purpose))
        except BaseException:
            if began:
                folder.discard()
            raise
        running.note(server, number, method_name, out, getattr(settings, "epsilon", None), folder.request)
    return Submitted(number, out, before, folder.request, told=told)


def _handed_over(server: ServerFolder, config_text: str) -> str:
    """Give a run to Flower's server; returns its number."""
    with tempfile.TemporaryDirectory(prefix="fedballot-") as scratch:
        app = Path(scratch) / "fedballot"
        write_app(app)
        config = Path(scratch) / "run.toml"
        config.write_text(config_text)
        return str(ask(server.home, "run", str(app), "--run-config", str(config))["run-id"])


def _identity(path: Path) -> Identity | None:
    try:
        stat = path.stat()
    except FileNotFoundError:
        return None
    return stat.st_ino, stat.st_mtime_ns


def run_config(
    method_name: str, settings: CommonSettings, out: Path, heads: Path, requester: str = "", purpose: str = ""
) -> str:
    """The run-config of an experiment as TOML, every setting spelled out."""
    words = settings_text(settings)
    values = {"method": method_name, "preset": "", "out": str(out), "settings": words, "heads": str(heads)}
    values |= {"requester": requester, "purpose": purpose}
    lines = (f"{name} = {json.dumps(value, ensure_ascii=False)}\n" for name, value in values.items())
    return "".join(lines).replace("\x7f", r"\u007f")  # which JSON may hold as it is, and TOML may not


def follow(server: ServerFolder, run: Submitted, progress: Progress) -> dict[str, Any]:
    """Wait for a run's result, passing on its progress.

    Returns
    -------
    dict
        The content of ``result.json``.

    Raises
    ------
    RunError
        If the run failed, ended without a result, or the server is gone.
    """
    folder = RunFolder(run.folder, "", {}, "", "")
    follower = Follower(run.folder / PROGRESS_FILE, progress, run.told)
    last_question, silences = time.monotonic(), 0
    status: str | None = None
    while True:
        follower.look()
        result = _result(folder, run.before)
        if result and result["status"] == "done":
            return result
        if result and result["status"] in ("failed", "stopped"):
            raise RunError(str(result["error"]))
        if status is not None:
            raise RunError(
                f"the server ended run {run.run_id} without a result ({status}); its log says why. Sites that have "
                f"answered need not train again: go on with --out {run.folder} --resume"
            )
        if time.monotonic() - last_question > ASK_S:
            try:
                status, silences = run_ended(server, run.run_id), 0
            except RunError as error:
                silences += 1
                if silences == SILENCES:
                    raise RunError(
                        f"the server has not answered {SILENCES} times ({error}); when it is back, go on with "
                        f"--out {run.folder} --resume"
                    ) from error
            last_question = time.monotonic()
        time.sleep(LOOK_S)


def _result(folder: RunFolder, before: Identity | None) -> dict[str, Any] | None:
    """The result file once this run has written it; an earlier attempt's does not count."""
    if _identity(folder.result) in (None, before):
        return None
    try:
        return dict(read_json(folder.result))
    except DataError as error:
        raise RunError(str(error)) from error


def run_ended(server: ServerFolder, run_id: str) -> str | None:
    """How Flower says that the run ended (``finished:failed`` and why), None while it goes on."""
    for run in running.statuses({}, ask(server.home, "list", "--run-id", run_id)["runs"]):
        if run.run_id == run_id and run.ended:
            return f"{run.status}: {run.details}" if run.details else run.status
    return None
