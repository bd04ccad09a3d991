"""One experiment on this machine: hundreds of virtual clients, in worker processes or on Flower's Ray-backed engine."""

from __future__ import annotations

import importlib.util
import logging
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

# read by Flower when it is imported
os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
os.environ.setdefault("FLWR_DISABLE_UPDATE_CHECK", "1")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")

from fedballot.core.callbacks import Callbacks
from fedballot.core.errors import FedballotError, RunError, SettingsError
from fedballot.core.folders import holds_run
from fedballot.core.progress import Progress, watched
from fedballot.core.stopping import stoppable
from fedballot.learners.registry import get_learner
from fedballot.methods.api import Method
from fedballot.methods.registry import get_method
from fedballot.privacy.guarantee import Guarantee
from fedballot.runs import workers as processes
from fedballot.runs.worker import Job
from fedballot.settings.parts import CommonSettings

if TYPE_CHECKING:
    from flwr.common import Context

    from fedballot.clients.base import BallotClient
    from fedballot.runs.engine import ServerSide

# what training and storing a learner import, by whether it needs torch
LEARNER_MODULES = {
    False: ("fedballot.learners.sklearn_learner", "fedballot.core.skops_io"),
    True: ("fedballot.learners.torch_learner",),
}


def simulate(
    method_name: str,
    settings: CommonSettings,
    out: Path,
    *,
    resume: bool,
    progress: Progress,
    workers: processes.Workers | None = None,
    callbacks: Callbacks | None = None,
    preset: str | None = None,
) -> dict[str, Any]:
    """Run one experiment to the end.

    Parameters
    ----------
    method_name
        A name from the table of methods.
    settings
        Resolved settings of that method. With ``engine=auto`` clients work in processes of this machine, or on Ray
        where they share a GPU or ``ray_address`` names a cluster; the numbers are the same. With
        ``clients_per_worker`` torch clients of a worker train together, and the last bits are others.
    out
        The run's folder.
    resume
        Take up the run that is in ``out``: clients that have answered are not trained again.
    progress
        Told about every answer and every step of the server's training.
    workers
        Processes that have served other runs; as many are kept as the settings ask for.
    callbacks
        Told when the run starts and after each round.
    preset
        The preset that the settings came from, for the record.

    Returns
    -------
    dict
        The content of ``result.json``.

    Raises
    ------
    SettingsError
        If settings or folder cannot work; a new run leaves no folder then.
    RunError
        If the run started and failed.
    KeyboardInterrupt
        If it was stopped, by SIGTERM too; ``resume`` takes it up.
    """
    with stoppable(), watched(progress):
        try:
            return _simulated(get_method(method_name), settings, out, resume, progress, workers, callbacks, preset)
        finally:
            progress.stop()


def _simulated(
    method: Method,
    settings: CommonSettings,
    out: Path,
    resume: bool,
    progress: Progress,
    workers: processes.Workers | None,
    callbacks: Callbacks | None,
    preset: str | None,
) -> dict[str, Any]:
    count = min(settings.worker_count, method.nodes(settings))
    cluster = cluster_address(settings)
    wants_ray = settings.engine == "ray" or cluster != ""
    if wants_ray and not has_ray():
        asked = "engine=ray" if settings.engine == "ray" else f"ray_address={cluster}"
        raise SettingsError(f"{asked} needs Ray, which is not installed: pip install 'fedballot[ray]', or engine=local")
    if count > 1 and not wants_ray:
        processes.prepare(worker_modules(method, settings))
    progress.start("reading settings and data", 1)
    from fedballot.runs.engine import check_learners, make_server, open_run, resolve_device

    models = method.trained_models(settings)
    folder = open_run(out, method, settings, resume=resume, preset=preset)
    check_learners(settings, clients=True, taken_up=holds_run(out))
    device = resolve_device(settings, models)
    shares_gpu = device == "cuda" and settings.clients_per_worker == 1 and has_ray()
    on_ray = wants_ray or (settings.engine == "auto" and shares_gpu)
    with ExitStack() as joined:
        if cluster:  # before anything of the run is on disk
            joined.enter_context(_joined(cluster, progress))
        with folder.held():
            new = not holds_run(out)
            side = make_server(
                method, settings, folder, workers=count, progress=progress, engine="ray" if on_ray else "local"
            )
            try:
                with _logs_in(folder.log), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    planned = side.strategy.ready()
                    if callbacks is not None:
                        _announce(side, out, callbacks, planned)
                    if cluster:
                        _run_on_cluster(side, method, joined)
                    elif on_ray:
                        _run_on_ray(side, method.name, device)
                    else:
                        _run_here(side, method.name, workers)
            except (FedballotError, KeyboardInterrupt) as error:
                side.recorder.failed(error)
                if new and isinstance(error, SettingsError) and not side.strategy.counts.asked:
                    side.recorder.withdraw()
                raise
            except Exception as error:
                side.recorder.failed(error)
                words = f"the simulation broke off: {type(error).__name__}: {error}; see {folder.log}"
                other = ". Without Ray the same goes on with --resume --set engine=local" if on_ray else ""
                raise RunError(words + other) from error
    if side.recorder.result["status"] != "done":
        raise RunError(f"the simulation ended without a result; see {folder.log}")
    return side.recorder.result


def _announce(side: ServerSide, out: Path, callbacks: Callbacks, planned: Sequence[Guarantee]) -> None:
    """Tell what is planned and the rounds of earlier starts, and have each round told from now on."""
    strategy = side.strategy
    callbacks.run_started(out, {**side.recorder.result, "guarantees": [one.worded() for one in planned]})
    for record in strategy.round_records:
        callbacks.round_ended(record["round"], record)
    strategy.round_ended = callbacks.round_ended


def has_ray() -> bool:
    """Whether Ray is installed."""
    return importlib.util.find_spec("ray") is not None


def cluster_address(settings: CommonSettings) -> str:
    """The Ray cluster that a run joins, by its settings or by Ray's own ``RAY_ADDRESS``; empty: none."""
    address = settings.ray_address or os.environ.get("RAY_ADDRESS", "")
    here = settings.engine == "local" or settings.clients_per_worker > 1
    return "" if here or address == "local" else address


def worker_modules(method: Method, settings: CommonSettings) -> list[str]:
    """What clients import before they work."""
    models = method.trained_models(settings)
    kinds = {get_learner(name).needs_torch for name in models}
    learners = [name for torch in sorted(kinds) for name in LEARNER_MODULES[torch]]
    client = method.client.partition(":")[0] if isinstance(method.client, str) else method.client.__module__
    return ["fedballot.runs.engine", client, *learners]


def _run_here(side: ServerSide, method_name: str, shared: processes.Workers | None) -> None:
    from fedballot.runs.engine import make_client
    from fedballot.runs.local import run_rounds

    recorder, count = side.recorder, side.recorder.workers
    make = partial(make_client, method_name, recorder.settings, recorder.folder.path / "clients")
    job = Job(make, recorder.folder.log, recorder.settings.clients_per_worker)
    if count == 1:
        run_rounds(side, job, processes.replies_here)
        return
    with nullcontext(shared) if shared else processes.Workers(count) as workers:
        workers.resize(count)
        side.progress.start(f"starting {count} workers", count)
        workers.start(side.progress.advance)
        run_rounds(side, job, workers.replies)


def _run_on_ray(side: ServerSide, method_name: str, device: str) -> None:
    side.progress.start("starting Ray", 1)
    from flwr.simulation import run_simulation

    from fedballot.runs.flower_api import flower_api

    recorder, settings = side.recorder, side.recorder.settings
    # "local": another Ray on this machine is none of ours
    where = {"address": "local", "num_cpus": recorder.workers}
    gpus = settings.gpu_fraction if device == "cuda" else 0.0
    backend: Any = {
        "init_args": {**where, "logging_level": logging.ERROR, "log_to_driver": False},
        "client_resources": {"num_cpus": 1, "num_gpus": gpus},
    }
    api = flower_api()
    run_simulation(
        server_app=api.server_app(lambda context: side),
        client_app=api.client_app(partial(_client, method_name, settings, recorder.folder.path / "clients")),
        num_supernodes=side.strategy.nodes,
        backend_config=backend,
    )


@contextmanager
def _joined(address: str, progress: Progress) -> Iterator[None]:
    progress.start(f"joining the Ray cluster at {address}", 1)
    from fedballot.runs.cluster import joined

    with joined(address), stoppable():  # once more: Ray has put its own handler in place
        yield


def _run_on_cluster(side: ServerSide, method: Method, joined: ExitStack) -> None:
    from fedballot.runs import cluster
    from fedballot.runs.cluster_node import DATA, Errand, held
    from fedballot.runs.engine import federated_data, make_client, needs_torch
    from fedballot.runs.local import run_rounds

    recorder, settings = side.recorder, side.recorder.settings
    folder = recorder.folder.path.absolute()
    make = partial(make_client, method.name, settings, folder / "clients")
    errand = Errand(
        Job(make, folder / recorder.folder.log.name),
        partial(federated_data, settings),
        folder,
        recorder.folder.request,
        place=os.getcwd(),
        data_folder=os.environ.get(DATA),
    )
    with_gpus = settings.device != "cpu" and needs_torch(settings, method.trained_models(settings))
    with held(folder), joined:  # the cluster is left, and clients on it end, before another process may ask them
        most = min(settings.workers or side.strategy.nodes, side.strategy.nodes)
        share = cluster.gpu_share(settings.gpu_fraction) if with_gpus else 0.0
        nodes = cluster.Cluster(errand, gpu_share=share, most=most)
        nodes.start(side.progress, side.round_timeout_s)
        recorder.workers = nodes.slots
        run_rounds(side, errand.job, nodes.replies)


def _client(method_name: str, settings: CommonSettings, clients_root: Path, context: Context) -> BallotClient[Any]:
    from fedballot.runs.engine import make_client
    from fedballot.runs.run_config import client_number

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
    before = {name: list(logging.getLogger(name).handlers) for name in names}
    try:
        for name in names:
            logging.getLogger(name).handlers = [handler]
        yield
    finally:
        for name, handlers in before.items():
            logging.getLogger(name).handlers = handlers
        handler.close()
