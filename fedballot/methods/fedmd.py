"""FedMD and its two private kinds."""

from fedballot.methods.api import Method
from fedballot.settings.fedmd import FedmdSettings, LdpSettings, NfdpSettings

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

METHODS = (FEDMD, FEDMD_NFDP, FEDMD_LDP)
