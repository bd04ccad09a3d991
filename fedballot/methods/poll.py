"""A poll: does the public pool fit what clients hold?"""

from fedballot.methods.api import Method
from fedballot.settings.poll import PollSettings

POLL = Method(
    name="poll",
    summary="clients count which public records are nearest to theirs, so that all know whether the pool fits",
    sends="noisy counts of records by public cell and by class",
    protects="each record (or each client)",
    from_whom="everybody who sees the sum or what is concluded from it",
    source="ours; the open question of the papers: diversity of the public data",
    settings=PollSettings,
    client="fedballot.clients.poll:PollClient",
    strategy="fedballot.strategies.poll:PollStrategy",
    multi_label=True,
)

METHODS = (POLL,)
