"""FedAUXfdp, its baselines and variants, and FedAUX."""

from fedballot.methods.api import Method
from fedballot.settings.class_sums import FedauxfdpSumSettings
from fedballot.settings.fedaux import FedauxfdpSettings, FedauxFSettings, FedauxSettings
from fedballot.settings.heads import FeddSettings, PrivateHeadSettings

FEDAUXFDP = Method(
    name="fedauxfdp",
    summary="clients tell noisy class sums of public features, or private heads; the server weighs and distils",
    sends="one noisy release: class sums, or a class head and a score head",
    protects="each record",
    from_whom="everybody, the server included",
    source="FedAUXfdp: Differentially private one-shot federated distillation, Algorithm 1",
    settings=FedauxfdpSettings,
    client="fedballot.clients.fedaux:FedauxfdpClient",
    strategy="fedballot.strategies.fedaux:FedauxfdpStrategy",
)

FEDD_P = Method(
    name="fedd-p",
    summary="the server distils the plain average of what private heads say of public data",
    sends="one private class head, or its predictions",
    protects="each record",
    from_whom="everybody, the server included",
    source="FedAUXfdp, baseline FedD+P",
    settings=FeddSettings,
    client="fedballot.clients.private_heads:HeadClient",
    strategy="fedballot.strategies.fedaux:EnsembleStrategy",
)

FEDAVG_P = Method(
    name="fedavg-p",
    summary="the server averages the private heads of the clients",
    sends="one private class head",
    protects="each record",
    from_whom="everybody, the server included",
    source="FedAUXfdp, baseline FedAVG+P",
    settings=PrivateHeadSettings,
    client="fedballot.clients.private_heads:HeadClient",
    strategy="fedballot.strategies.fedavg_p:HeadAverageStrategy",
)

FEDAUXFDP_SUM = Method(
    name="fedauxfdp-sum",
    summary="FedAUXfdp with class sums that are added up before the server sees them, and one noise in all",
    sends="a share of one noisy sum of class counts and sums",
    protects="each record",
    from_whom="everybody who sees the sum, the labels or the server's model",
    source="ours, after FedAUXfdp: Differentially private one-shot federated distillation, Algorithm 1",
    settings=FedauxfdpSumSettings,
    client="fedballot.clients.fedaux_sum:FedauxfdpSumClient",
    strategy="fedballot.strategies.fedaux_sum:FedauxfdpSumStrategy",
)

FEDAUX_F = Method(
    name="fedaux-f",
    summary="FedAUX with a frozen extractor: private scores weigh predictions that have no noise",
    sends="predictions on public data and private scores",
    protects="nothing: predictions may tell about training records",
    from_whom="nobody",
    source="FedAUXfdp, FedAUX+F",
    settings=FedauxFSettings,
    client="fedballot.clients.fedaux:FedauxFClient",
    strategy="fedballot.strategies.fedaux:FedauxFStrategy",
)

FEDAUX = Method(
    name="fedaux",
    summary="clients train full models; the server averages them and distils all, weighted by private scores",
    sends="the difference of its weights, each round, and a private score head",
    protects="nothing: weights may tell about training records",
    from_whom="nobody",
    source="FedAUX: Leveraging unlabeled auxiliary data in federated learning",
    settings=FedauxSettings,
    client="fedballot.clients.fedaux_weights:FedauxClient",
    strategy="fedballot.strategies.fedaux_weights:FedauxStrategy",
)

METHODS = (FEDAUXFDP, FEDD_P, FEDAVG_P, FEDAUXFDP_SUM, FEDAUX_F, FEDAUX)
