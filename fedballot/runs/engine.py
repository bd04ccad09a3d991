"""One experiment, however it is run: the same client and server for the simulation, `flwr run` and a deployment."""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from fedballot.clients.base import BallotClient
from fedballot.clients.workspace import Workspace
from fedballot.core.errors import SettingsError, named
from fedballot.core.files import read_json
from fedballot.core.folders import RunFolder, client_folder
from fedballot.core.progress import Progress, Silent
from fedballot.core.setting import names_of
from fedballot.datasets.federation import FederatedData, build
from fedballot.datasets.own import SITES
from fedballot.datasets.spec import FederationSpec, WithoutLabels
from fedballot.learners import steps
from fedballot.learners.checks import Inputs
from fedballot.learners.extractors import make_extractor
from fedballot.learners.options import neighbours_of
from fedballot.learners.registry import get_learner
from fedballot.learners.seen import seen_through
from fedballot.learners.tryout import try_as
from fedballot.methods.api import Method
from fedballot.methods.registry import all_methods, get_method
from fedballot.runs.recorder import Recorder
from fedballot.runs.worker import usual_torch_threads
from fedballot.settings.baselines import PooledSettings
from fedballot.settings.fedaux import FedauxFSettings
from fedballot.settings.heads import STUDENT_FEATURES, FrozenStudent
from fedballot.settings.parts import ClientFeatures, CommonSettings, ServerFeatures, named_models, server_models
from fedballot.strategies.base import BallotStrategy
from fedballot.strategies.one_shot import OneShotStrategy


@lru_cache(maxsize=8)  # every client asks; to check each setting anew takes .8 ms
def federation_spec(settings: CommonSettings) -> FederationSpec:
    """The part of the settings that says what data there are and who holds them."""
    kind = FederationSpec if settings.labelled else WithoutLabels
    return kind(**{name: getattr(settings, name) for name in names_of(FederationSpec)})


def federated_data(settings: CommonSettings) -> FederatedData:
    """The data of an experiment, loaded once per process."""
    return build(federation_spec(settings))


def needs_torch(settings: CommonSettings, names: Sequence[str]) -> bool:
    """Whether any of these learners, or an extractor or encoder of the settings, is torch's."""
    return (
        bool(settings.encoder)
        or any(get_learner(name).needs_torch for name in names)
        or any(map(steps.needs_torch, settings.of_kind("extractor").values()))
    )


def check_learners(settings: CommonSettings, *, clients: bool, taken_up: bool = False) -> None:
    """Refuse extractors that cannot be built, and learners that cannot be trained or stored, before anything starts.

    See `try_learner`. Each learner is tried on what it will read: public records, or the features that the settings
    name in their place. Of frozen features only the kind is known here, which is enough for our own learners; the
    Strategy tries others.

    Parameters
    ----------
    clients
        Whether those of the clients are tried too, not only the server's.
    taken_up
        Whether the run has begun, so that what its models read cannot be changed and is not proposed.

    Raises
    ------
    SettingsError
        Naming the setting, the learner and what is allowed.
    """
    data = federated_data(settings)
    for setting, chain in settings.of_kind("extractor").items():
        with named(setting, chain):
            make_extractor(chain, input_shape=data.public_x.shape[1:], components=getattr(settings, "components", 64))
    for setting, name in named_models(settings):
        if setting == "client_models" and not clients:
            continue
        if setting == "server_model" and neighbours_of(name) > (most := _most_records(settings, data)):
            raise SettingsError(
                f"server_model={name}: n_neighbors={neighbours_of(name)} is more than the {most} records that there "
                "are to learn from: ask for fewer neighbours"
            )
        x, instead = _read_by(settings, data, setting)
        if x is None and not _ours(setting, name):
            continue
        made_up = np.zeros((1, STUDENT_FEATURES), dtype=np.float32)
        try_as(setting, name, made_up if x is None else x, data, instead="" if taken_up else instead)


def _most_records(settings: CommonSettings, data: FederatedData) -> int:
    """No more than so many can the server's model learn from: public ones, in a baseline perhaps all private ones."""
    pooled = (data.records or 0) if isinstance(settings, PooledSettings) else 0
    return max(len(data.public_x), pooled)


def _ours(setting: str, name: str) -> bool:
    """Whether a learner is ours and as it comes, so that it is built only."""
    with named(setting, name):
        return not get_learner(name).foreign and "(" not in name


def _read_by(settings: CommonSettings, data: FederatedData, setting: str) -> tuple[Inputs | None, str]:
    """Public records as the models of a setting see them (None: as frozen features), and what has them see records."""
    if setting == "server_model":
        if isinstance(settings, FrozenStudent) and settings.student_reads == "features":
            return None, "student_reads=records"
        if isinstance(settings, ServerFeatures) and settings.server_features:
            return _features(settings, data, settings.server_features, settings.components), "server_features empty"
        return data.public_x, ""
    if isinstance(settings, FedauxFSettings):
        return None, ""
    if isinstance(settings, ClientFeatures) and settings.client_features:
        return _features(settings, data, settings.client_features, settings.components), "client_features empty"
    return data.public_x, ""


def _features(settings: CommonSettings, data: FederatedData, chain: str, components: int) -> Inputs:
    """The public pool's features, from the same extractor that client and Strategy of this process take."""
    device = resolve_device(settings, tuple(name for _, name in named_models(settings)))
    return seen_through(chain, data, components, device)[1].public_x


def open_run(
    out: Path, method: Method, settings: CommonSettings, *, resume: bool, preset: str | None = None
) -> RunFolder:
    """A run's folder; see `RunFolder.open`.

    The server's model may be another one than before, once all answers of a run of one round are in its checkpoint and
    nothing was learned from them yet: nobody is asked again, and nothing charged.

    Raises
    ------
    SettingsError
        If the folder cannot take this run, or holds one with other settings.
    """
    free: tuple[str, ...] = ()
    if resume and issubclass(method.strategy_class, OneShotStrategy) and (out / "checkpoint.npz").exists():
        result = out / "result.json"
        done = result.exists() and read_json(result).get("status") == "done"
        free = () if done else ("server_model",)
    return RunFolder.open(out, method.name, settings, resume=resume, free=free, preset=preset)


def resolve_device(settings: CommonSettings, names: Sequence[str]) -> str:
    """``cpu`` or ``cuda``: what `device` means here for these learners; torch is imported only for its own.

    Raises
    ------
    SettingsError
        If cuda is asked for and there is none.
    """
    if settings.device == "cpu" or not needs_torch(settings, names) or importlib.util.find_spec("torch") is None:
        return "cpu"
    import torch

    if torch.cuda.is_available():
        return "cuda"
    if settings.device == "cuda":
        raise SettingsError("device=cuda, but torch sees no GPU here: use device=auto or device=cpu")
    return "cpu"


@lru_cache(maxsize=1)
def prepare_worker(with_torch: bool) -> None:
    """Once per worker process: one torch thread, since the workers share the cores."""
    if with_torch and importlib.util.find_spec("torch") is not None:
        import torch

        usual_torch_threads()  # what a server in this process goes back to
        torch.set_num_threads(1)


def make_client(method_name: str, settings: CommonSettings, clients_root: Path, client_id: int) -> BallotClient[Any]:
    """The client of this number in an experiment on one machine."""
    method = get_method(method_name)
    models = method.trained_models(settings)
    prepare_worker(needs_torch(settings, models))
    workspace = Workspace(
        client_id=client_id,
        settings=settings,
        data=federated_data(settings),
        folder=client_folder(clients_root, client_id),
        device=resolve_device(settings, models),
    )
    return method.client_class(workspace)


@dataclasses.dataclass(frozen=True)
class ServerSide:
    """A run's server, whatever carries its messages: the Strategy, and the recorder that holds its result.

    Attributes
    ----------
    alone : what keeps others from the run's folder until the outcome is written, if that is for this object to end.
    """

    strategy: BallotStrategy[Any]
    recorder: Recorder
    progress: Progress
    alone: ExitStack = dataclasses.field(default_factory=ExitStack)

    @property
    def round_timeout_s(self) -> float:
        """How long a client may take to answer."""
        return self.recorder.settings.round_timeout_s

    def finish(self, error: BaseException | None) -> None:
        """Write the outcome of the run, or why there is none."""
        self.progress.stop()
        with self.alone:
            if error is None:
                self.recorder.done(self.strategy)
            else:
                self.recorder.failed(error)


@contextmanager
def finishing(finish: Callable[[BaseException | None], None]) -> Iterator[None]:
    """Around all rounds of a run: ``finish(None)`` at their end, or ``finish(error)`` where it or they fail."""
    try:
        yield
        finish(None)
    except BaseException as error:
        finish(error)
        raise


def new_strategy(
    method: Method,
    settings: CommonSettings,
    data: FederatedData,
    *,
    request_id: str,
    device: str = "cpu",
    progress: Progress | None = None,
) -> BallotStrategy[Any]:
    """The Strategy of a method for these data, at its first round."""
    return method.strategy_class(
        settings,
        data=data,
        device=device,
        nodes=method.nodes(settings),
        fingerprint=data.public_fingerprint,
        request_id=request_id,
        progress=progress or Silent(),
    )


def make_server(
    method: Method,
    settings: CommonSettings,
    folder: RunFolder,
    *,
    workers: int,
    progress: Progress,
    engine: str = "flower",
) -> ServerSide:
    """The server's side of a run; ``engine`` is what its record calls whatever runs the clients."""
    data = federated_data(settings)
    if data.multi_label and not method.multi_label:
        able = ", ".join(name for name, known in all_methods().items() if known.multi_label)
        raise SettingsError(
            f"{settings.dataset!r} has several labels per record, which {method.name} cannot take: use {able}"
        )
    device = resolve_device(settings, server_models(settings))
    strategy = new_strategy(method, settings, data, request_id=folder.request, device=device, progress=progress)
    strategy.take_up(folder.checkpoint)
    if settings.dataset != SITES:
        strategy.clients_root = folder.path / "clients"
    return ServerSide(strategy, Recorder(folder, method, settings, data, workers, engine), progress)
