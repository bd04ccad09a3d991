"""FedKD as printed, and made sound."""

from fedballot.methods.api import Method
from fedballot.settings.fedkd import FedkdDpSettings, FedkdSettings

FEDKD = Method(
    name="fedkd",
    summary="one-shot: quantised logits of fully trained models, averaged by class counts, distilled",
    sends="one quantised logit per public record and class, class counts",
    protects="nothing that can be proved",
    from_whom="nobody",
    source="Preserving privacy in federated learning with ensemble cross-domain distillation, Algorithm 1",
    settings=FedkdSettings,
    client="fedballot.clients.fedkd:FedkdClient",
    strategy="fedballot.strategies.fedkd:FedkdStrategy",
    multi_label=True,
)

FEDKD_DP = Method(
    name="fedkd-dp",
    summary="FedKD made sound: clipped logits, equal weights, noise on the sum",
    sends="one noisy logit per public record and class",
    protects="each client with all its data",
    from_whom="everybody who sees the sum, the consensus or the server's model",
    source="Preserving privacy in federated learning with ensemble cross-domain distillation, mended",
    settings=FedkdDpSettings,
    client="fedballot.clients.fedkd:FedkdDpClient",
    strategy="fedballot.strategies.fedkd:FedkdDpStrategy",
    multi_label=True,
)

METHODS = (FEDKD, FEDKD_DP)
