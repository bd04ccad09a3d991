"""PATE-FL and Private-kNN-FL: clients vote on public data."""

from fedballot.methods.api import Method
from fedballot.settings.voting import KnnSettings, PateSettings

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

METHODS = (PATE_FL, PRIVATE_KNN_FL)
