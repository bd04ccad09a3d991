"""Trackers of experiments, each an own library's: CSV needs none, the others are extras of the same names."""

from __future__ import annotations

import csv
import importlib.util
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fedballot.core.callbacks import Callback, Record
from fedballot.core.errors import SettingsError

STATED = ("epsilon", "delta", "unit", "adjacency", "view", "trust", "status")
LONGEST = 500  # characters of a setting; MLflow refuses longer ones in some versions
EXPERIMENT = "fedballot"


def figures(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, float]]:
    """Names and values of all numbers in a mapping and those below it, ``client_accuracy.mean``; lists are left out."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from figures(value, f"{before}{name}.")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield f"{before}{name}", float(value)


def parameters(result: Record) -> dict[str, str]:
    """All settings, and the method, as short texts."""
    values = {"method": result["method"], **result["settings"]}
    return {name: _text(value)[:LONGEST] for name, value in values.items()}


def promise(result: Record) -> dict[str, str]:
    """What the first guarantee says, with all that its epsilon speaks of; that there is none where it has none."""
    first = next(iter(result.get("guarantees", [])), {"status": "none"})
    return {f"guarantee.{name}": _text(first[name]) for name in STATED if name in first}


def round_figures(record: Record) -> dict[str, float]:
    """The numbers of a round."""
    return {name.removeprefix("metrics."): value for name, value in figures(record) if name != "round"}


def final_figures(result: Record) -> dict[str, float]:
    """The numbers of a whole run."""
    parts = ("communication", "timing")
    named = {name: value for part in parts for name, value in figures(result.get(part, {}))}
    return {**dict(figures(result.get("metrics", {}))), **named}


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


class CsvTracker(Callback):
    """``track.csv`` in the run's folder: ``what,name,round,value``, a line as soon as it is known."""

    def run_started(self, folder: Path, result: Record) -> None:
        self._path = folder / "track.csv"
        self._path.write_text("what,name,round,value\n", encoding="utf-8")
        self._write("setting", parameters(result))
        self._write("planned", promise(result))

    def round_ended(self, number: int, record: Record) -> None:
        self._write("round", round_figures(record), number)

    def run_ended(self, folder: Path, result: Record) -> None:
        self._write("guarantee", promise(result))
        self._write("final", final_figures(result))
        self._write("run", {"status": result["status"]})

    def run_failed(self, folder: Path, result: Record) -> None:
        self._write("run", {"status": result["status"], "error": result["error"]})

    def _write(self, what: str, values: Mapping[str, Any], number: int | str = "") -> None:
        with self._path.open("a", encoding="utf-8", newline="") as stream:
            csv.writer(stream, lineterminator="\n").writerows([what, k, number, v] for k, v in values.items())


class TensorBoardTracker(Callback):
    """Event files in ``tensorboard/`` of the run's folder; ``tensorboard --logdir`` on a folder of runs shows all."""

    def run_started(self, folder: Path, result: Record) -> None:
        from tensorboardX import SummaryWriter

        self._writer = SummaryWriter(str(folder / "tensorboard"))
        self._table("settings", parameters(result))
        self._table("guarantee, planned", promise(result))

    def round_ended(self, number: int, record: Record) -> None:
        for name, value in round_figures(record).items():
            self._writer.add_scalar(f"round/{name}", value, number)
        self._writer.flush()

    def run_ended(self, folder: Path, result: Record) -> None:
        for name, value in final_figures(result).items():
            self._writer.add_scalar(f"final/{name}", value, 0)
        self._table("guarantee", promise(result))
        for one in result["guarantees"][:1]:
            self._writer.add_text("guarantee/in words", one["sentence"])
        self._writer.add_text("report", str(folder.absolute() / "report.html"))
        self._writer.close()

    def run_failed(self, folder: Path, result: Record) -> None:
        self._writer.add_text(result["status"], str(result["error"]))
        self._writer.close()

    def _table(self, name: str, values: Mapping[str, str]) -> None:
        rows = [f"| {key} | {value.replace('|', '/')} |" for key, value in values.items()]
        self._writer.add_text(name, "\n".join(["| name | value |", "| --- | --- |", *rows]))


class MlflowTracker(Callback):
    """A run on the server or in the store of ``MLFLOW_TRACKING_URI``, its page as an artifact.

    The experiment is that of ``MLFLOW_EXPERIMENT_NAME``, or ``fedballot``.
    """

    def run_started(self, folder: Path, result: Record) -> None:
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")  # no server: the run goes on within seconds
        from mlflow import MlflowClient

        self._client = client = MlflowClient()
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or EXPERIMENT
        known = client.get_experiment_by_name(name)
        place = known.experiment_id if known else client.create_experiment(name)
        self._id = client.create_run(place, run_name=folder.resolve().name, tags=promise(result)).info.run_id
        for key, value in parameters(result).items():
            client.log_param(self._id, key, value)

    def round_ended(self, number: int, record: Record) -> None:
        self._log(round_figures(record), number)

    def run_ended(self, folder: Path, result: Record) -> None:
        self._log({f"final.{name}": value for name, value in final_figures(result).items()}, 0)
        for key, value in promise(result).items():
            self._client.set_tag(self._id, key, value)
        for one in result["guarantees"][:1]:
            self._client.set_tag(self._id, "guarantee.sentence", one["sentence"])
        self._client.log_artifact(self._id, str(folder / "report.html"))
        self._client.set_terminated(self._id, "FINISHED")

    def run_failed(self, folder: Path, result: Record) -> None:
        self._client.set_tag(self._id, "error", str(result["error"]))
        self._client.set_terminated(self._id, "KILLED" if result["status"] == "stopped" else "FAILED")

    def _log(self, values: Mapping[str, float], step: int) -> None:
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        self._client.log_batch(self._id, metrics=[Metric(name, value, now, step) for name, value in values.items()])


class WandbTracker(Callback):
    """A run of Weights & Biases, offline below the run's folder unless ``WANDB_MODE`` says otherwise."""

    def run_started(self, folder: Path, result: Record) -> None:
        import wandb

        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT") or EXPERIMENT,
            dir=str(folder),
            name=folder.resolve().name,
            mode=os.environ.get("WANDB_MODE") or "offline",
            config={**parameters(result), **promise(result)},
            settings=wandb.Settings(silent=True),
        )

    def round_ended(self, number: int, record: Record) -> None:
        self._run.log({f"round/{name}": value for name, value in round_figures(record).items()}, step=number)

    def run_ended(self, folder: Path, result: Record) -> None:
        self._run.summary.update(final_figures(result))
        self._run.config.update(promise(result), allow_val_change=True)
        self._run.save(str(folder / "report.html"), base_path=str(folder), policy="now")
        self._run.finish()

    def run_failed(self, folder: Path, result: Record) -> None:
        self._run.summary["error"] = str(result["error"])
        self._run.finish(exit_code=1)


# by the name of an extra: what it makes, and the module that it needs
TRACKERS: Mapping[str, tuple[Callable[[], Callback], str]] = {
    "csv": (CsvTracker, "csv"),
    "tensorboard": (TensorBoardTracker, "tensorboardX"),
    "mlflow": (MlflowTracker, "mlflow"),
    "wandb": (WandbTracker, "wandb"),
}


def tracker_names(track: str | Sequence[str]) -> str:
    """Names with commas between, also of a list.

    Raises
    ------
    SettingsError
        If it is neither.
    """
    names = (track,) if isinstance(track, str) else track
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise SettingsError(f"track={track!r}: expected names, such as track='csv' or track=['csv', 'mlflow']")
    return ",".join(names)


def trackers(names: str) -> list[Callback]:
    """The trackers of these names, with commas between.

    Raises
    ------
    SettingsError
        If there is none of a name, or its library is not installed.
    """
    made = []
    for name in filter(None, (part.strip() for part in names.split(","))):
        if name not in TRACKERS:
            raise SettingsError(f"track={name}: must be one of {', '.join(TRACKERS)}, or several with commas")
        make, module = TRACKERS[name]
        if importlib.util.find_spec(module) is None:
            raise SettingsError(f"track={name}: needs {module}: pip install 'fedballot[{name}]'")
        made.append(make())
    return made
