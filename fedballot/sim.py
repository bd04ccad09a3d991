"""One experiment on this machine: hundreds of virtual clients on Flower's Ray-backed virtual client engine."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

# read by Flower when it is imported
os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("FLWR_DISABLE_UPDATE_CHECK", "1")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")

from flwr.common import Context
from flwr.simulation import run_simulation

from fedballot.clients.base import BallotClient
from fedballot.core.errors import FedballotError, RunError
from fedballot.core.folders import RunFolder
from fedballot.core.progress import Progress
from fedballot.methods.registry import get_method
from fedballot.runs.engine import (
    check_learners,
    make_client,
    make_server,
    resolve_device,
    trained_models,
)
from fedballot.runs.flower_api import flower_api
from fedballot.runs.run_config import client_number
from fedballot.settings.parts import CommonSettings, server_models


def simulate(
    method_name: str, settings: CommonSettings, out: Path, *, resume: bool, progress: Progress
) -> dict[str, Any]:
    """Run one experiment to the end.

    Parameters
    ----------
    method_name
        A name from the table of methods.
    settings
        Resolved settings of that method.
    out
        The run's folder.
    resume
        Take up the run that is in ``out``: clients that have answered are not trained again.
    progress
        Told about every answer and every step of the server's training.

    Returns
    -------
    dict
        The content of ``result.json``.

    Raises
    ------
    SettingsError
        If settings or folder cannot work.
    RunError
        If the run started and failed.
    """
    method = get_method(method_name)
    models = trained_models(method, settings)
    check_learners(settings, (*models, *server_models(settings)))
    folder = RunFolder.open(out, method_name, settings, resume=resume)
    nodes = method.nodes(settings)
    workers = min(settings.worker_count, nodes)
    side = make_server(method, settings, folder, workers=workers, progress=progress)
    recorder, api = side.recorder, flower_api()
    device = resolve_device(settings, models)
    gpus = settings.gpu_fraction if device == "cuda" else 0.0
    backend: Any = {
        "init_args": {"num_cpus": workers, "logging_level": logging.ERROR, "log_to_driver": False},
        "client_resources": {"num_cpus": 1, "num_gpus": gpus},
    }
    try:
        with _logs_in(folder.log), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            run_simulation(
                server_app=api.server_app(lambda context: side),
                client_app=api.client_app(partial(_client, method_name, settings, folder.path / "clients")),
                num_supernodes=nodes,
                backend_config=backend,
            )
    except FedballotError:
        raise
    except KeyboardInterrupt as error:
        recorder.failed(error)
        raise
    except Exception as error:
        recorder.failed(error)
        raise RunError(f"the simulation broke off: {type(error).__name__}: {error}; see {folder.log}") from error
    finally:
        progress.stop()
    if recorder.result["status"] != "done":
        raise RunError(f"the simulation ended without a result; see {folder.log}")
    return recorder.result


def _client(method_name: str, settings: CommonSettings, clients_root: Path, context: Context) -> BallotClient[Any]:
    return make_client(method_name, settings, clients_root, client_number(context))


class LogFile(logging.FileHandler):
    """A log whose lines are lost quietly when the disk is full: the run itself says that it is."""

    def handleError(self, record: logging.LogRecord) -> None:
        """See ``logging.Handler.handleError``, which prints a traceback for every line."""


@contextmanager
def _logs_in(path: Path) -> Iterator[None]:
    """Send Flower's and Ray's log lines to a file while the terminal shows progress."""
    handler = LogFile(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(name)s %(levelname)s %(message)s"))
    names = ("flwr", "ray", "fedballot")
    kept = {name: list(logging.getLogger(name).handlers) for name in names}
    try:
        for name in names:
            logging.getLogger(name).handlers = [handler]
        yield
    finally:
        for name, handlers in kept.items():
            logging.getLogger(name).handlers = handlers
        handler.close()
