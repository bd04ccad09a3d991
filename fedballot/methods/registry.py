"""The table of methods. Adding a method is one entry here, a Strategy and a client."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fedballot.clients.base import BallotClient
from fedballot.clients.baselines import CentralizedClient, PublicOnlyClient, StandaloneClient
from fedballot.clients.fedaux import FedauxFClient, FedauxfdpClient
from fedballot.clients.fedaux_sum import FedauxfdpSumClient
from fedballot.clients.fedaux_weights import FedauxClient
from fedballot.clients.fedgen import FedgenClient
from fedballot.clients.fedkd import FedkdClient, FedkdDpClient
from fedballot.clients.fedmd import FedmdClient
from fedballot.clients.fedmd_private import LdpClient, NfdpClient
from fedballot.clients.pate import PateClient
from fedballot.clients.private_heads import HeadClient
from fedballot.clients.private_knn import KnnClient
from fedballot.clients.weights import ProxClient, WeightsClient
from fedballot.clients.weights_private import DpFedavgClient, DpFedsgdClient
from fedballot.datasets.federation import FederatedData
from fedballot.settings.fedaux import FedauxfdpSettings, FedauxfdpSumSettings, FedauxFSettings, FedauxSettings
from fedballot.settings.fedkd import FedkdDpSettings, FedkdSettings
from fedballot.settings.fedmd import FedmdSettings, LdpSettings, NfdpSettings
from fedballot.settings.heads import FeddSettings, HeadSettings
from fedballot.settings.parts import CommonSettings, unknown_name
from fedballot.settings.voting import KnnSettings, PateSettings
from fedballot.settings.weights import (
    DpFedavgSettings,
    DpFedsgdSettings,
    FedgenSettings,
    MomentumSettings,
    ProxSettings,
    WeightsSettings,
)
from fedballot.strategies.base import BallotStrategy
from fedballot.strategies.baselines import MeasureStrategy
from fedballot.strategies.fedaux import EnsembleStrategy, FedauxfdpStrategy, FedauxFStrategy, HeadAverageStrategy
from fedballot.strategies.fedaux_sum import FedauxfdpSumStrategy
from fedballot.strategies.fedaux_weights import FedauxStrategy
from fedballot.strategies.feddf import FeddfStrategy
from fedballot.strategies.fedgen import FedgenStrategy
from fedballot.strategies.fedkd import FedkdDpStrategy, FedkdStrategy
from fedballot.strategies.fedmd import FedmdStrategy, LdpStrategy, NfdpStrategy
from fedballot.strategies.pate import PateStrategy
from fedballot.strategies.weights import MomentumStrategy, WeightsStrategy
from fedballot.strategies.weights_private import DpFedavgStrategy, DpFedsgdStrategy


@dataclass(frozen=True)
class Method:
    """One method: how it is set, who runs it, and what it promises.

    ``strategy`` is called with the settings, the data, the device, and the keywords that every
    :class:`~fedballot.strategies.base.BallotStrategy` takes.
    """

    name: str
    summary: str
    sends: str
    protects: str
    from_whom: str
    source: str
    settings: type[CommonSettings]
    client: type[BallotClient[Any]]
    strategy: Callable[..., BallotStrategy[Any]]
    single_client: bool = False
    trains: bool = True  # whether clients train learners (`client_models`)
    multi_label: bool = False
    search: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # values that `fedballot frontier` tries

    def nodes(self, settings: CommonSettings) -> int:
        """Number of Flower nodes that the method needs."""
        return 1 if self.single_client else settings.clients


def _measure(settings: CommonSettings, *, data: FederatedData, device: str, **kwargs: Any) -> MeasureStrategy:
    return MeasureStrategy(settings, n_classes=len(data.classes), multi_label=data.multi_label, **kwargs)


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(
            name="pate-fl",
            summary="clients vote on public data; the server learns from the noisy tally",
            sends="one noisy vote matrix per client",
            protects="each client with all its data (and each record, at a higher epsilon)",
            from_whom="everybody who sees the tally, the labels or the server's model",
            source="Voting-based approaches for differentially private federated learning, Algorithm 1",
            settings=PateSettings,
            client=PateClient,
            strategy=PateStrategy,
            search={"vote_fraction": ("0.3", "0.55", "1.0"), "epochs": ("10", "20", "40"), "passes": ("1", "2")},
        ),
        Method(
            name="private-knn-fl",
            summary="clients count the classes of each public query's nearest private records; the server learns from "
            "the noisy tally",
            sends="one noisy count matrix per client",
            protects="each record (and each client, at a higher epsilon)",
            from_whom="everybody who sees the tally, the labels or the server's model",
            source="Voting-based approaches for differentially private federated learning, Algorithm 2",
            settings=KnnSettings,
            client=KnnClient,
            strategy=PateStrategy,
            trains=False,
            search={"k": ("5", "10", "20", "40"), "neighbours": ("5", "10"), "spread": ("0.9", "0.99")},
        ),
        Method(
            name="fedmd",
            summary="clients with models of any kind learn from the average of all predictions, round after round",
            sends="predictions on public data, each round",
            protects="nothing: predictions may tell about training records",
            from_whom="nobody",
            source="Federated model distillation with noise-free differential privacy, FedMD-NP",
            settings=FedmdSettings,
            client=FedmdClient,
            strategy=FedmdStrategy,
        ),
        Method(
            name="fedmd-nfdp",
            summary="FedMD in which each client trains on one fixed random sample of its records",
            sends="predictions on public data, each round",
            protects="each record, with the probability that it is not in the sample",
            from_whom="everybody, the server included",
            source="Federated model distillation with noise-free differential privacy, Algorithm 1",
            settings=NfdpSettings,
            client=NfdpClient,
            strategy=NfdpStrategy,
        ),
        Method(
            name="fedmd-ldp",
            summary="FedMD in which each client adds noise to every prediction",
            sends="noisy predictions on public data, each round",
            protects="each client with all its data",
            from_whom="everybody, the server included",
            source="Federated model distillation with noise-free differential privacy, FedMD-LDP",
            settings=LdpSettings,
            client=LdpClient,
            strategy=LdpStrategy,
        ),
        Method(
            name="fedkd",
            summary="one-shot: quantised logits of fully trained models, averaged by class counts, distilled",
            sends="one quantised logit per public record and class, class counts",
            protects="nothing that can be proved",
            from_whom="nobody",
            source="Preserving privacy in federated learning with ensemble cross-domain distillation, Algorithm 1",
            settings=FedkdSettings,
            client=FedkdClient,
            strategy=FedkdStrategy,
            multi_label=True,
        ),
        Method(
            name="fedkd-dp",
            summary="FedKD made sound: clipped logits, equal weights, noise on the sum",
            sends="one noisy logit per public record and class",
            protects="each client with all its data",
            from_whom="everybody who sees the sum, the consensus or the server's model",
            source="Preserving privacy in federated learning with ensemble cross-domain distillation, mended",
            settings=FedkdDpSettings,
            client=FedkdDpClient,
            strategy=FedkdDpStrategy,
            multi_label=True,
        ),
        Method(
            name="fedauxfdp",
            summary="clients tell noisy class sums of public features, or private heads; the server weighs and distils",
            sends="one noisy release: class sums, or a class head and a score head",
            protects="each record",
            from_whom="everybody, the server included",
            source="FedAUXfdp: Differentially private one-shot federated distillation, Algorithm 1",
            settings=FedauxfdpSettings,
            client=FedauxfdpClient,
            strategy=FedauxfdpStrategy,
        ),
        Method(
            name="fedd-p",
            summary="the server distils the plain average of what private heads say of public data",
            sends="one private class head, or its predictions",
            protects="each record",
            from_whom="everybody, the server included",
            source="FedAUXfdp, baseline FedD+P",
            settings=FeddSettings,
            client=HeadClient,
            strategy=EnsembleStrategy,
        ),
        Method(
            name="fedavg-p",
            summary="the server averages the private heads of the clients",
            sends="one private class head",
            protects="each record",
            from_whom="everybody, the server included",
            source="FedAUXfdp, baseline FedAVG+P",
            settings=HeadSettings,
            client=HeadClient,
            strategy=HeadAverageStrategy,
        ),
        Method(
            name="fedauxfdp-sum",
            summary="FedAUXfdp with class sums that are added up before the server sees them, and one noise in all",
            sends="a share of one noisy sum of class counts and sums",
            protects="each record",
            from_whom="everybody who sees the sum, the labels or the server's model",
            source="ours, after FedAUXfdp: Differentially private one-shot federated distillation, Algorithm 1",
            settings=FedauxfdpSumSettings,
            client=FedauxfdpSumClient,
            strategy=FedauxfdpSumStrategy,
            trains=False,
        ),
        Method(
            name="fedaux-f",
            summary="FedAUX with a frozen extractor: private scores weigh predictions that have no noise",
            sends="predictions on public data and private scores",
            protects="nothing: predictions may tell about training records",
            from_whom="nobody",
            source="FedAUXfdp, FedAUX+F",
            settings=FedauxFSettings,
            client=FedauxFClient,
            strategy=FedauxFStrategy,
        ),
        Method(
            name="fedaux",
            summary="clients train full models; the server averages them and distils all, weighted by private scores",
            sends="the difference of its weights, each round, and a private score head",
            protects="nothing: weights may tell about training records",
            from_whom="nobody",
            source="FedAUX: Leveraging unlabeled auxiliary data in federated learning",
            settings=FedauxSettings,
            client=FedauxClient,
            strategy=FedauxStrategy,
        ),
        Method(
            name="fedavg",
            summary="clients train one shared model in turn; the server averages their weights, round after round",
            sends="the difference of its weights, each round",
            protects="nothing: weights may tell about training records",
            from_whom="nobody",
            source="Communication-efficient learning of deep networks from decentralized data, Algorithm 1",
            settings=WeightsSettings,
            client=WeightsClient,
            strategy=WeightsStrategy,
        ),
        Method(
            name="fedprox",
            summary="fedavg in which local training is pulled towards the shared model",
            sends="the difference of its weights, each round",
            protects="nothing: weights may tell about training records",
            from_whom="nobody",
            source="Federated optimization in heterogeneous networks, Algorithm 2",
            settings=ProxSettings,
            client=ProxClient,
            strategy=WeightsStrategy,
        ),
        Method(
            name="fedavgm",
            summary="fedavg in which the server's steps have momentum",
            sends="the difference of its weights, each round",
            protects="nothing: weights may tell about training records",
            from_whom="nobody",
            source="Measuring the effects of non-identical data distribution for federated visual classification, 4.3",
            settings=MomentumSettings,
            client=WeightsClient,
            strategy=MomentumStrategy,
        ),
        Method(
            name="feddf",
            summary="fedavg whose average learns from the ensemble of all clients' models on public data",
            sends="the difference of its weights, each round",
            protects="nothing: weights may tell about training records",
            from_whom="nobody",
            source="Ensemble distillation for robust model fusion in federated learning, Algorithm 1",
            settings=WeightsSettings,
            client=WeightsClient,
            strategy=FeddfStrategy,
        ),
        Method(
            name="fedgen",
            summary="fedavg in which all also learn from features that the server's generator makes, without any data",
            sends="the difference of its weights and its class counts, each round",
            protects="nothing: weights may tell about training records",
            from_whom="nobody",
            source="Data-free knowledge distillation for heterogeneous federated learning, Algorithm 1",
            settings=FedgenSettings,
            client=FedgenClient,
            strategy=FedgenStrategy,
        ),
        Method(
            name="dp-fedavg",
            summary="fedavg with clipped differences and noise on their sum",
            sends="the difference of its weights, each round, to a server that it trusts",
            protects="each client with all its data",
            from_whom="everybody but the server, which must be trusted",
            source="Learning differentially private recurrent language models, Algorithm 1",
            settings=DpFedavgSettings,
            client=DpFedavgClient,
            strategy=DpFedavgStrategy,
            search={
                "client_models": ("cnn-small", "linear-torch"),
                "clip": ("0.1", "0.3", "1.0"),
                "rounds": ("5", "10", "20", "40"),
                "epochs": ("1", "2", "5"),
                "lr": ("1e-3", "2e-3", "5e-3"),
            },
        ),
        Method(
            name="dp-fedsgd",
            summary="fedavg in which every local step clips each record's gradient and adds noise",
            sends="the noisy difference of its weights, each round",
            protects="each record",
            from_whom="everybody, the server included",
            source="Deep learning with differential privacy, Algorithm 1, run by each client",
            settings=DpFedsgdSettings,
            client=DpFedsgdClient,
            strategy=DpFedsgdStrategy,
            search={
                "clip": ("0.3", "1.0", "3.0"),
                "rounds": ("1", "5", "20"),
                "rate": ("0.05", "0.1", "0.3"),
                "lr": ("0.1", "0.5", "2.0"),
            },
        ),
        Method(
            name="standalone",
            summary="every client trains on its own data only",
            sends="nothing (accuracies, for measuring)",
            protects="everything: nothing is shared",
            from_whom="everybody",
            source="baseline",
            settings=CommonSettings,
            client=StandaloneClient,
            strategy=_measure,
            multi_label=True,
        ),
        Method(
            name="centralized",
            summary="the server's model trained on all private data pooled",
            sends="all private data",
            protects="nothing",
            from_whom="nobody",
            source="baseline",
            settings=CommonSettings,
            client=CentralizedClient,
            strategy=_measure,
            single_client=True,
            multi_label=True,
        ),
        Method(
            name="public-only",
            summary="the server's model trained on the public pool with its labels",
            sends="nothing (an accuracy, for measuring)",
            protects="everything: no private record is used",
            from_whom="everybody",
            source="baseline",
            settings=CommonSettings,
            client=PublicOnlyClient,
            strategy=_measure,
            single_client=True,
            multi_label=True,
        ),
    )
}


def get_method(name: str) -> Method:
    """The method of that name.

    Raises
    ------
    SettingsError
        If there is none, with the nearest name.
    """
    if name not in METHODS:
        raise unknown_name("method", name, list(METHODS), "fedballot methods")
    return METHODS[name]
