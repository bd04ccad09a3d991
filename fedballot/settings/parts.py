"""Parts of a method's settings: a method extends those whose settings its client, Strategy or learners read.

All that a class lists first comes last in its list of settings, and wins where both declare a setting.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from typing import Literal

from fedballot.core.errors import SettingsError, named
from fedballot.core.setting import Condition, Settings, setting
from fedballot.datasets.own import SITES
from fedballot.datasets.spec import FederationSpec
from fedballot.learners.registry import in_epochs
from fedballot.learners.steps import AUTO, split_steps
from fedballot.privacy.mechanism import Composition, Facts, unprotected


@dataclass(frozen=True)
class Federation(FederationSpec):
    """How many clients must answer, beside what data there are."""

    min_clients: int = setting(
        0, "fewest good answers for a result; 0: nine in ten of the clients", low=0, site_limit=(0, 1_000_000)
    )

    def __post_init__(self) -> None:
        if not self.min_clients:
            object.__setattr__(self, "min_clients", max(1, math.ceil(0.9 * self.clients)))
        super().__post_init__()

    def check(self) -> None:
        super().check()
        if self.min_clients > self.clients:
            raise SettingsError(
                f"min_clients={self.min_clients} is more than clients={self.clients}: ask for at most all of them"
            )

    @property
    def query_count(self) -> int:
        """Public records that a client answers about: all, unless the method says otherwise."""
        return self.public_size


@dataclass(frozen=True)
class Run(Settings):
    """How a machine works; each machine's own affair."""

    engine: Literal["auto", "local", "ray"] = setting(
        "auto",
        "what runs the clients of a simulation: local, processes of this machine; ray, Flower's virtual client engine, "
        "or the nodes of a cluster; auto: ray for a GPU or a cluster, else local",
        reads="machine",
    )
    ray_address: str = setting(
        "", "a running Ray cluster to join: auto, or an address; empty: that of RAY_ADDRESS, or none", reads="machine"
    )
    workers: int = setting(
        0, "parallel workers; 0: as many as cores; 1: in this process (engine=local)", low=0, reads="machine"
    )
    clients_per_worker: int = setting(
        1,
        "clients that a worker trains together with stacked weights, for GPUs (engine=local, networks without batch "
        "norm or dropout); weights differ by rounding",
        low=1,
        reads="machine",
    )
    device: Literal["auto", "cpu", "cuda"] = setting(
        "auto", "where torch learners train; auto: cuda if there is one", reads="machine"
    )
    gpu_fraction: float = setting(0.25, "share of a GPU per worker, when on cuda", above=0, high=1, reads="machine")
    round_timeout_s: float = setting(
        3600.0, "longest wait for the answers of a round, in seconds", above=0, reads="machine"
    )

    def check(self) -> None:
        super().check()
        if self.clients_per_worker > 1 and (self.engine == "ray" or self.ray_address):
            raise SettingsError(
                f"clients_per_worker={self.clients_per_worker} is for workers of this machine (engine=local); Ray "
                "gives each client a process of its own: set clients_per_worker=1, or leave Ray out"
            )


@dataclass(frozen=True)
class CommonSettings(Run, Federation):
    """What every method has."""

    def check(self) -> None:
        super().check()
        for name, chain in self.of_kind("extractor").items():
            with named(name, chain):
                split_steps(chain)

    def composition(self, facts: Facts) -> Composition:
        """All that a run with these settings releases of a client; methods with a guarantee say what."""
        return unprotected("Answers without noise")

    @property
    def worker_count(self) -> int:
        """Parallel workers: ``workers``, or the cores this process may use, and never more than clients."""
        return min(self.workers or len(os.sched_getaffinity(0)), self.clients)


# sites name models of their own
CLIENTS_IN_EPOCHS = Condition(
    "a client's model trains in epochs",
    lambda settings: getattr(settings, "dataset", "") == SITES or in_epochs(settings.client_models),
)
SERVER_IN_EPOCHS = Condition(
    "the server's model trains in epochs",
    # without a learner of its own the server trains the clients' network
    lambda settings: not server_models(settings) or in_epochs(server_models(settings)),
)


def with_step(words: str, *prefixes: str) -> Condition:
    """The condition that an extractor has a step whose name begins so."""
    return Condition(
        words,
        lambda settings: any(
            step.startswith(prefixes) for chain in settings.of_kind("extractor").values() for step in split_steps(chain)
        ),
    )


WITH_PCA = with_step("an extractor has the step pca", "pca", AUTO)


@dataclass(frozen=True)
class LocalTraining(Settings):
    """Of methods whose clients train learners."""

    client_models: tuple[str, ...] = setting(
        ("cnn-small",),
        "learners of the clients, comma-separated, dealt out in turn; parameters in brackets: xgboost(max_depth=4)",
        reads="site",
        headline=True,
    )
    epochs: int = setting(
        20, "epochs of local training", low=0, site_limit=(1, 500), headline=True, read_if=CLIENTS_IN_EPOCHS
    )
    batch_size: int = setting(
        64, "batch size of local training", low=1, site_limit=(1, 4096), read_if=CLIENTS_IN_EPOCHS
    )
    lr: float = setting(
        2e-3, "learning rate of local training", above=0, site_limit=(1e-6, 10.0), read_if=CLIENTS_IN_EPOCHS
    )


@dataclass(frozen=True)
class ClientEvaluation(Settings):
    """Of methods whose clients have something to measure."""

    evaluate_clients: bool = setting(
        True,
        "measure each client's own model on test records; the figure stays in the client's folder",
        site_limit=(False, True),
    )


@dataclass(frozen=True)
class ServerSteps(Settings):
    """Of methods whose server trains anything."""

    server_batch_size: int = setting(
        64, "batch size of the server's training", low=1, reads="server", read_if=SERVER_IN_EPOCHS
    )
    server_lr: float = setting(
        2e-3, "learning rate of the server's training", above=0, reads="server", read_if=SERVER_IN_EPOCHS
    )


@dataclass(frozen=True)
class ServerEpochs(ServerSteps):
    """Of methods whose server trains in epochs."""

    server_epochs: int = setting(30, "epochs of the server's training", low=0, reads="server", read_if=SERVER_IN_EPOCHS)


@dataclass(frozen=True)
class ServerTraining(ServerEpochs):
    """Of methods whose server trains a learner of its own."""

    server_model: str = setting(
        "cnn", "learner that the server trains; parameters in brackets: mlp(alpha=0.01)", reads="server", headline=True
    )


@dataclass(frozen=True)
class Queries(Federation):
    """Of methods whose clients answer about some public records."""

    queries: int = setting(
        0, "public records that clients answer; 0: the whole pool", low=0, site_limit=(0, 1_000_000), headline=True
    )

    def check(self) -> None:
        super().check()
        if self.queries > self.public_size:
            raise SettingsError(
                f"queries={self.queries} is more than public_size={self.public_size}: ask for at most the whole pool"
            )

    @property
    def query_count(self) -> int:
        """Number of queries Q."""
        return self.queries or self.public_size


@dataclass(frozen=True)
class FeatureSteps(Settings):
    """Of methods that may learn from the features of an extractor."""

    components: int = setting(
        64, "principal components of the step pca of any extractor", low=1, site_limit=(1, 4096), read_if=WITH_PCA
    )


@dataclass(frozen=True)
class ServerFeatures(FeatureSteps):
    """Of methods whose server's model may learn from features."""

    server_features: str = setting(
        "",
        "extractor whose features the server's model learns from; empty: the records",
        reads="server",
        kind="extractor",
    )


@dataclass(frozen=True)
class ClientFeatures(FeatureSteps):
    """Of methods whose clients' models may learn from features."""

    client_features: str = setting(
        "", "extractor whose features the clients' models learn from; empty: the records", kind="extractor"
    )


@dataclass(frozen=True)
class NoiseSeed(Settings):
    """Of methods that draw noise or a secret sample."""

    noise_seed: int | None = setting(
        None, "seed the noise, for tests; the guarantee is then stamped: not private", site_limit=()
    )


@dataclass(frozen=True)
class Delta(NoiseSeed):
    """Of methods whose guarantee has a delta."""

    delta: float = setting(
        1e-5,
        "added to e^epsilon times any probability; below 1/n",
        above=0,
        below=1,
        site_limit=(1e-15, 0.1),
        headline=True,
    )


@dataclass(frozen=True)
class PrivacyTarget(Delta):
    """Of methods whose noise is solved for a target."""

    epsilon: float = setting(1.0, "privacy target", above=0, site_limit=(1e-3, 1000.0), headline=True)


def client_models(settings: Settings) -> tuple[str, ...]:
    """Learners that clients train, if any."""
    return settings.client_models if isinstance(settings, LocalTraining) else ()


def server_models(settings: Settings) -> tuple[str, ...]:
    """The learner of the server's own that it trains, if any."""
    return (settings.server_model,) if isinstance(settings, ServerTraining) else ()


def named_models(settings: Settings) -> list[tuple[str, str]]:
    """Each learner with the setting that names it, the server's first."""
    server = [("server_model", name) for name in server_models(settings)]
    return server + [("client_models", name) for name in dict.fromkeys(client_models(settings))]
