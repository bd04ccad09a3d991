"""The baselines that share weights."""

from fedballot.methods.api import Method
from fedballot.settings.weights import FedavgmSettings, FedavgSettings, FeddfSettings, FedgenSettings, ProxSettings
from fedballot.settings.weights_private import DpFedavgSettings, DpFedsgdSettings

FEDAVG = Method(
    name="fedavg",
    summary="clients train one shared model in turn; the server averages their weights, round after round",
    sends="the difference of its weights, each round",
    protects="nothing: weights may tell about training records",
    from_whom="nobody",
    source="Communication-efficient learning of deep networks from decentralized data, Algorithm 1",
    settings=FedavgSettings,
    client="fedballot.clients.weights:WeightsClient",
    strategy="fedballot.strategies.weights:WeightsStrategy",
)

FEDPROX = Method(
    name="fedprox",
    summary="fedavg in which local training is pulled towards the shared model",
    sends="the difference of its weights, each round",
    protects="nothing: weights may tell about training records",
    from_whom="nobody",
    source="Federated optimization in heterogeneous networks, Algorithm 2",
    settings=ProxSettings,
    client="fedballot.clients.weights:ProxClient",
    strategy="fedballot.strategies.weights:WeightsStrategy",
)

FEDAVGM = Method(
    name="fedavgm",
    summary="fedavg in which the server's steps have momentum",
    sends="the difference of its weights, each round",
    protects="nothing: weights may tell about training records",
    from_whom="nobody",
    source="Measuring the effects of non-identical data distribution for federated visual classification, 4.3",
    settings=FedavgmSettings,
    client="fedballot.clients.weights:WeightsClient",
    strategy="fedballot.strategies.weights:MomentumStrategy",
)

FEDDF = Method(
    name="feddf",
    summary="fedavg whose average learns from the ensemble of all clients' models on public data",
    sends="the difference of its weights, each round",
    protects="nothing: weights may tell about training records",
    from_whom="nobody",
    source="Ensemble distillation for robust model fusion in federated learning, Algorithm 1",
    settings=FeddfSettings,
    client="fedballot.clients.weights:WeightsClient",
    strategy="fedballot.strategies.feddf:FeddfStrategy",
)

FEDGEN = Method(
    name="fedgen",
    summary="fedavg in which all also learn from features that the server's generator makes, without any data",
    sends="the difference of its weights and its class counts, each round",
    protects="nothing: weights may tell about training records",
    from_whom="nobody",
    source="Data-free knowledge distillation for heterogeneous federated learning, Algorithm 1",
    settings=FedgenSettings,
    client="fedballot.clients.fedgen:FedgenClient",
    strategy="fedballot.strategies.fedgen:FedgenStrategy",
)

DP_FEDAVG = Method(
    name="dp-fedavg",
    summary="fedavg with clipped differences and noise on their sum",
    sends="the difference of its weights, each round, to a server that it trusts",
    protects="each client with all its data",
    from_whom="everybody but the server, which must be trusted",
    source="Learning differentially private recurrent language models, Algorithm 1",
    settings=DpFedavgSettings,
    client="fedballot.clients.weights_private:DpFedavgClient",
    strategy="fedballot.strategies.weights_private:DpFedavgStrategy",
    search={
        "client_models": ("linear-torch",),  # cnn-small, of 15 times the weights, lost every trial on digits
        "optimizer": ("sgd",),  # AdamW's steps were up to 16 points worse there
        "clip": ("0.1", "0.3", "1.0"),
        "rounds": ("5", "10", "20", "40"),
        "epochs": ("1", "2", "5"),
        "lr": ("0.03", "0.1", "0.3"),
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
    client="fedballot.clients.weights_private:DpFedsgdClient",
    strategy="fedballot.strategies.weights_private:DpFedsgdStrategy",
    search={
        "clip": ("0.3", "1.0", "3.0"),
        "rounds": ("1", "5", "20"),
        "rate": ("0.05", "0.1", "0.3"),
        "lr": ("0.1", "0.5", "2.0"),
    },
)

METHODS = (FEDAVG, FEDPROX, FEDAVGM, FEDDF, FEDGEN, DP_FEDAVG, DP_FEDSGD)
