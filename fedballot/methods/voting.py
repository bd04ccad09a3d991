"""PATE-FL, Private-kNN-FL and FedKT: clients vote on public data."""

from fedballot.methods.api import Method
from fedballot.settings.voting import FedktSettings, KnnSettings, PateSettings

PATE_FL = Method(
    name="pate-fl",
    summary="clients vote on public data; the server learns from the noisy tally",
    sends="one noisy vote matrix per client",
    protects="each client with all its data (and each record, at a higher epsilon)",
    from_whom="everybody who sees the tally, the labels or the server's model",
    source="Voting-based approaches for differentially private federated learning, Algorithm 1",
    settings=PateSettings,
    client="fedballot.clients.pate:PateClient",
    strategy="fedballot.strategies.voting:VotingStrategy",
    search={"vote_fraction": ("0.3", "0.55", "1.0"), "epochs": ("10", "20", "40"), "passes": ("1", "2")},
)

PRIVATE_KNN_FL = Method(
    name="private-knn-fl",
    summary="clients count the classes of each public query's nearest private records; the server learns from "
    "the noisy tally",
    sends="one noisy count matrix per client",
    protects="each record (and each client, at a higher epsilon)",
    from_whom="everybody who sees the tally, the labels or the server's model",
    source="Voting-based approaches for differentially private federated learning, Algorithm 2",
    settings=KnnSettings,
    client="fedballot.clients.private_knn:KnnClient",
    strategy="fedballot.strategies.voting:VotingStrategy",
    search={"k": ("5", "10", "20", "40"), "neighbours": ("5", "10"), "spread": ("0.9", "0.99")},
)

FEDKT = Method(
    name="fedkt",
    summary="clients vote where students of their own teachers agree; the server learns from the tally",
    sends="at most one vote per public record and client",
    protects="each client with all its data, with a finite epsilon; by default nothing",
    from_whom="nobody; with a finite epsilon everybody who sees the tally, the labels or the server's model",
    source="Practical one-shot federated learning for cross-silo setting (FedKT), Algorithm 1",
    settings=FedktSettings,
    client="fedballot.clients.fedkt:FedktClient",
    strategy="fedballot.strategies.voting:VotingStrategy",
)

METHODS = (PATE_FL, PRIVATE_KNN_FL, FEDKT)
