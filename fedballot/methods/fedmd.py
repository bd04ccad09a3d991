"""FedMD and its two private kinds; DS-FL and Selective-FD, which do something to the average."""

from fedballot.methods.api import Method
from fedballot.settings.fedmd import FedmdSettings, LdpSettings, NfdpSettings
from fedballot.settings.selective import DsflSettings, SelectiveSettings

FEDMD = Method(
    name="fedmd",
    summary="clients with models of any kind learn from the average of all predictions, round after round",
    sends="predictions on public data, each round",
    protects="nothing: predictions may tell about training records",
    from_whom="nobody",
    source="Federated model distillation with noise-free differential privacy, FedMD-NP",
    settings=FedmdSettings,
    client="fedballot.clients.fedmd:FedmdClient",
    strategy="fedballot.strategies.fedmd:FedmdStrategy",
)

FEDMD_NFDP = Method(
    name="fedmd-nfdp",
    summary="FedMD in which each client trains on one fixed random sample of its records",
    sends="predictions on public data, each round",
    protects="each record, with the probability that it is not in the sample",
    from_whom="everybody, the server included",
    source="Federated model distillation with noise-free differential privacy, Algorithm 1",
    settings=NfdpSettings,
    client="fedballot.clients.fedmd_private:NfdpClient",
    strategy="fedballot.strategies.fedmd:NfdpStrategy",
)

FEDMD_LDP = Method(
    name="fedmd-ldp",
    summary="FedMD in which each client adds noise to every prediction",
    sends="noisy predictions on public data, each round",
    protects="each client with all its data",
    from_whom="everybody, the server included",
    source="Federated model distillation with noise-free differential privacy, FedMD-LDP",
    settings=LdpSettings,
    client="fedballot.clients.fedmd_private:LdpClient",
    strategy="fedballot.strategies.fedmd:LdpStrategy",
)

DS_FL = Method(
    name="ds-fl",
    summary="FedMD whose server sharpens the average of the predictions, and learns from it",
    sends="predictions on public data, each round",
    protects="nothing: predictions may tell about training records",
    from_whom="nobody",
    source="Distillation-based semi-supervised federated learning for communication-efficient collaborative training "
    "with non-IID private data, Algorithm 1",
    settings=DsflSettings,
    client="fedballot.clients.selective:DistilledClient",
    strategy="fedballot.strategies.selective:DsflStrategy",
)

SELECTIVE_FD = Method(
    name="selective-fd",
    summary="FedMD whose clients answer about records like their own, and whose server sends back what is clear",
    sends="which public records are like its own, and predictions on them, each round",
    protects="nothing: answers tell which public records are like a client's",
    from_whom="nobody",
    source="Selective knowledge sharing for privacy-preserving federated distillation without a good teacher",
    settings=SelectiveSettings,
    client="fedballot.clients.selective:SelectiveClient",
    strategy="fedballot.strategies.selective:SelectiveStrategy",
)

METHODS = (FEDMD, FEDMD_NFDP, FEDMD_LDP, DS_FL, SELECTIVE_FD)
