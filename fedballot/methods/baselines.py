"""Baselines that share nothing, or everything."""

from fedballot.methods.api import Method
from fedballot.settings.baselines import PooledSettings, StandaloneSettings

STANDALONE = Method(
    name="standalone",
    summary="every client trains on its own data only",
    sends="nothing (accuracies, for measuring)",
    protects="everything: nothing is shared",
    from_whom="everybody",
    source="baseline",
    settings=StandaloneSettings,
    client="fedballot.clients.baselines:StandaloneClient",
    strategy="fedballot.strategies.baselines:MeasureStrategy",
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
    client="fedballot.clients.baselines:CentralizedClient",
    strategy="fedballot.strategies.baselines:MeasureStrategy",
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
    client="fedballot.clients.baselines:PublicOnlyClient",
    strategy="fedballot.strategies.baselines:MeasureStrategy",
    single_client=True,
    multi_label=True,
)

METHODS = (STANDALONE, CENTRALIZED, PUBLIC_ONLY)
