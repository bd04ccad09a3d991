"""Baselines that share nothing, or everything."""

from fedballot.clients.baselines import CentralizedClient, PublicOnlyClient, StandaloneClient
from fedballot.methods.api import Method
from fedballot.settings.baselines import PooledSettings, StandaloneSettings
from fedballot.strategies.baselines import MeasureStrategy

STANDALONE = Method(
    name="standalone",
    summary="every client trains on its own data only",
    sends="nothing (accuracies, for measuring)",
    protects="everything: nothing is shared",
    from_whom="everybody",
    source="baseline",
    settings=StandaloneSettings,
    client=StandaloneClient,
    strategy=MeasureStrategy,
    multi_label=True,
)

CENTRALIZED = Method(
    name="centralized",
    summary="the server's model trained on all private data pooled",
    sends="all private data",
    protects="nothing",
    from_whom="nobody",
    source="baseline",
    settings=PooledSettings,
    client=CentralizedClient,
    strategy=MeasureStrategy,
    single_client=True,
    multi_label=True,
)

PUBLIC_ONLY = Method(
    name="public-only",
    summary="the server's model trained on the public pool with its labels",
    sends="nothing (an accuracy, for measuring)",
    protects="everything: no private record is used",
    from_whom="everybody",
    source="baseline",
    settings=PooledSettings,
    client=PublicOnlyClient,
    strategy=MeasureStrategy,
    single_client=True,
    multi_label=True,
)

METHODS = (STANDALONE, CENTRALIZED, PUBLIC_ONLY)
