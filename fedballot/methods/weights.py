"""The baselines that share weights."""

from fedballot.clients.fedgen import FedgenClient
from fedballot.clients.weights import ProxClient, WeightsClient
from fedballot.clients.weights_private import DpFedavgClient, DpFedsgdClient
from fedballot.methods.api import Method
from fedballot.settings.weights import FedavgmSettings, FedavgSettings, FeddfSettings, FedgenSettings, ProxSettings
from fedballot.settings.weights_private import DpFedavgSettings, DpFedsgdSettings
from fedballot.strategies.feddf import FeddfStrategy
from fedballot.strategies.fedgen import FedgenStrategy
from fedballot.strategies.weights import MomentumStrategy, WeightsStrategy
from fedballot.strategies.weights_private import DpFedavgStrategy, DpFedsgdStrategy

FEDAVG = Method(
    name="fedavg",
    summary="clients train one shared model in turn; the server averages their weights, round after round",
    sends="the difference of its weights, each round",
    protects="nothing: weights may tell about training records",
    from_whom="nobody",
    source="Communication-efficient learning of deep networks from decentralized data, Algorithm 1",
    settings=FedavgSettings,
    client=WeightsClient,
    strategy=WeightsStrategy,
)

FEDPROX = Method(
    name="fedprox",
    summary="fedavg in which local training is pulled towards the shared model",
    sends="the difference of its weights, each round",
    protects="nothing: weights may tell about training records",
    from_whom="nobody",
    source="Federated optimization in heterogeneous networks, Algorithm 2",
    settings=ProxSettings,
    client=ProxClient,
    strategy=WeightsStrategy,
)

FEDAVGM = Method(
    name="fedavgm",
    summary="fedavg in which the server's steps have momentum",
    sends="the difference of its weights, each round",
    protects="nothing: weights may tell about training records",
    from_whom="nobody",
    source="Measuring the effects of non-identical data distribution for federated visual classification, 4.3",
    settings=FedavgmSettings,
    client=WeightsClient,
    strategy=MomentumStrategy,
)

FEDDF = Method(
    name="feddf",
    summary="fedavg whose average learns from the ensemble of all clients' models on public data",
    sends="the difference of its weights, each round",
    protects="nothing: weights may tell about training records",
    from_whom="nobody",
    source="Ensemble distillation for robust model fusion in federated learning, Algorithm 1",
    settings=FeddfSettings,
    client=WeightsClient,
    strategy=FeddfStrategy,
)

FEDGEN = Method(
    name="fedgen",
    summary="fedavg in which all also learn from features that the server's generator makes, without any data",
    sends="the difference of its weights and its class counts, each round",
    protects="nothing: weights may tell about training records",
    from_whom="nobody",
    source="Data-free knowledge distillation for heterogeneous federated learning, Algorithm 1",
    settings=FedgenSettings,
    client=FedgenClient,
    strategy=FedgenStrategy,
)

DP_FEDAVG = Method(
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
)

DP_FEDSGD = Method(
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
)

METHODS = (FEDAVG, FEDPROX, FEDAVGM, FEDDF, FEDGEN, DP_FEDAVG, DP_FEDSGD)
