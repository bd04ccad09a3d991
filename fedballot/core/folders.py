"""One run on disk: what was asked, what each client keeps, what came out. A killed run leaves a readable folder."""

from __future__ import annotations

import fcntl
import secrets
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fedballot.core.errors import DataError, RunError, SettingsError
from fedballot.core.files import is_half_written, read_json, write_json
from fedballot.core.setting import Settings

LOCK = ".run.lock"
RECORD = "run.json"


def holds_run(path: Path) -> bool:
    """Whether a run has begun in a folder."""
    return (path / RECORD).exists()


def check_no_run(path: Path) -> None:
    """Refuse a folder that holds a single run, where several are to go.

    Raises
    ------
    SettingsError
        Naming the folder.
    """
    if holds_run(path):
        raise SettingsError(f"--out {path}: holds a single run; name another folder for several")


@contextmanager
def held(path: Path, what: str) -> Iterator[None]:
    """Keep every other process out of a folder, in the block; it is made if need be.

    Parameters
    ----------
    what
        is going on there, for the error: "run".

    Raises
    ------
    SettingsError
        If the folder cannot be made or written.
    RunError
        If another process works there now.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        handle = (path / LOCK).open("a")
    except OSError as error:
        raise SettingsError(f"--out {path}: cannot be written: {error.strerror}; name another folder") from error
    with handle:  # it is let go when the process dies
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RunError(
                f"--out {path}: another process works on this {what}; wait for it to end, or stop it first"
            ) from error
        try:
            yield
        finally:
            fcntl.flock(handle, fcntl.LOCK_UN)  # closing would leave it to processes that were forked meanwhile


@dataclass(frozen=True)
class ClientFolder:
    """What one client keeps: its model, its ledger, figures for its own eyes. Never sent anywhere."""

    path: Path

    @property
    def model(self) -> Path:
        return self.path / "model"

    def note(self, figures: Mapping[str, Any]) -> None:
        """Keep figures about the client's own model, such as its accuracy."""
        write_json(self.path / "figures.json", dict(figures))

    def log_error(self, text: str) -> None:
        """Keep what went wrong, for the client's own eyes."""
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / "errors.txt").open("a") as stream:
            stream.write(f"{datetime.now(UTC).isoformat(timespec='seconds')}\n{text}\n")

    def log_blank(self, what: str, text: str) -> None:
        """Keep why an answer is blank, for the client's own eyes."""
        self.log_error(text)
        write_json(self.blank, {"what": what})

    @property
    def blank(self) -> Path:
        """There once the client has answered blank, as its own work had failed."""
        return self.path / "blank.json"

    def figures(self) -> dict[str, Any] | None:
        """The figures noted, or None."""
        path = self.path / "figures.json"
        return dict(read_json(path)) if path.exists() else None


@dataclass(frozen=True)
class RunFolder:
    """A run's folder: ``run.json`` (what was asked), ``clients/`` (each client's state), ``result.json``, the rest."""

    path: Path
    method: str
    settings: Mapping[str, Any]
    request: str
    started: str
    changed: tuple[Mapping[str, Any], ...] = ()
    preset: str | None = None

    @classmethod
    def open(
        cls,
        path: Path,
        method: str,
        settings: Settings,
        *,
        resume: bool,
        free: Collection[str] = (),
        preset: str | None = None,
    ) -> RunFolder:
        """A new run in ``path``, on disk only after :meth:`save`; or the one that is there, to be taken up.

        Parameters
        ----------
        free
            Settings that may be others than the run's own; what has changed stays in the record, and so in the result.
        preset
            The preset that a new run's settings came from; a run that is taken up keeps its own.

        Raises
        ------
        SettingsError
            If the folder holds a run and ``resume`` is off, or holds one of another method or other settings.
        """
        record = path / RECORD
        if not record.exists():
            if path.exists() and (not path.is_dir() or any(_is_foreign(entry) for entry in path.iterdir())):
                raise SettingsError(f"--out {path}: exists and holds no fedballot run; name a new folder")
            started = datetime.now(UTC).isoformat(timespec="seconds")
            return cls(path, method, settings.to_dict(), secrets.token_hex(16), started, preset=preset or None)
        run = cls.read(path)
        if not resume:
            raise SettingsError(
                f"--out {path}: already holds a run of {run.method}; add --resume, or name a new folder"
            )
        if run.method != method:
            raise SettingsError(f"--out {path}: holds a run of {run.method}, not of {method}; name a new folder")
        own, there = settings.to_dict(), run.settings
        machine = {*own} - {*settings.to_dict(machine=False)}  # what may change between a run and its resumption
        differing = sorted(key for key in {*own, *there} - machine if own.get(key) != there.get(key))
        if differing and {*differing} <= {*free}:
            now = datetime.now(UTC).isoformat(timespec="seconds")
            changed = [{"setting": key, "from": there.get(key), "to": own.get(key), "when": now} for key in differing]
            return replace(run, settings=own, changed=(*run.changed, *changed))
        if differing:
            words = ", ".join(f"{key} ({there.get(key)!r} there)" for key in differing)
            raise SettingsError(f"--resume {path}: settings differ from the run's own: {words}")
        return run

    @classmethod
    def read(cls, path: Path) -> RunFolder:
        """The run in ``path``.

        Raises
        ------
        DataError
            If there is none, or its record is damaged.
        """
        record = read_json(path / RECORD)
        try:
            method, settings, request = record["method"], record["settings"], record["request"]
            changed, preset = tuple(record.get("changed", ())), record.get("preset")
            return cls(path, method, settings, request, record["started"], changed, preset)
        except (KeyError, TypeError) as error:
            raise DataError(f"{path / 'run.json'}: is no record of a run; name a new folder") from error

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep every other process from working on this run, in the block; a folder that stays empty is taken away.

        Raises
        ------
        SettingsError
            If another process has begun a run here since :meth:`open`, or the folder cannot be made or written.
        RunError
            If another process works on the run now.
        """
        record = self.path / RECORD
        with held(self.path, "run"):
            if record.exists() and RunFolder.read(self.path).request != self.request:
                raise SettingsError(f"--out {self.path}: another run began there just now; name a new folder")
            try:
                yield
            finally:
                if not record.exists():
                    with suppress(OSError):
                        (self.path / LOCK).unlink()
                        self.path.rmdir()

    def save(self) -> None:
        """Put the run's record on disk.

        Raises
        ------
        SettingsError
            If the folder cannot be made or written.
        """
        record: dict[str, Any] = {
            "method": self.method,
            "settings": self.settings,
            "request": self.request,
            "started": self.started,
        }
        if self.changed:
            record["changed"] = list(self.changed)
        if self.preset:
            record["preset"] = self.preset
        try:
            write_json(self.path / RECORD, record)
        except OSError as error:
            raise SettingsError(
                f"--out {self.path}: cannot be written: {error.strerror}; name another folder"
            ) from error

    def discard(self) -> None:
        """Take away the record of a run that was never begun, and its folder if nothing else is in it."""
        (self.path / RECORD).unlink(missing_ok=True)
        with suppress(OSError):
            self.path.rmdir()

    def client(self, index: int) -> ClientFolder:
        """The folder of client ``index``."""
        return client_folder(self.path / "clients", index)

    @property
    def result(self) -> Path:
        return self.path / "result.json"

    @property
    def release(self) -> Path:
        return self.path / "release.npz"

    @property
    def space(self) -> Path:
        """What a server's model takes frozen features for, where it learned from such."""
        return self.path / "server-space.npz"

    @property
    def checkpoint(self) -> Path:
        return self.path / "checkpoint.npz"

    @property
    def log(self) -> Path:
        return self.path / "log.txt"


def _is_foreign(entry: Path) -> bool:
    """Whether it is more than a start that died before its record was there can have left."""
    return entry.name != LOCK and not is_half_written(entry)


def client_folder(root: Path, index: int) -> ClientFolder:
    """The folder of client ``index`` under ``root``."""
    return ClientFolder(root / f"{index:05d}")
