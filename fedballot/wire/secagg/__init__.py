"""Secure aggregation: the server learns the sum of the clients' integers modulo a power of two, and nothing else.

Source: Bonawitz et al. 2017, "Practical secure aggregation for privacy-preserving machine learning", Figure 4, with its
consistency check against a server that lies, on a sparse graph as in Bell et al. 2020, "Secure single-server
aggregation with (poly)logarithmic overhead".

A round has five exchanges: keys, shares, masked, confirm, unmask. A client adds two kinds of masks to its integers: one
from a seed of its own, and one for each neighbour, which the neighbour's ballot cancels. Every neighbour gets a share
of its seed and a share of its key. When the list of clients in the sum is known, each client signs the list that it was
shown, and reveals no share before more than half have signed the same list. It then reveals the share of the seed of a
client that is in the sum, and the share of the key of one that dropped out; never both, which would open that client's
integers.

Whatever a client was shown is bound into what it does next: the roster with all keys into the keys that encrypt shares,
the list of those who shared into the pairwise masks, and both, with the list of the sum, into the signature. So clients
to whom the server tells different stories cannot open anything together.

Key agreement, ciphers and signatures come from `cryptography`, secret sharing from `pycryptodome`. No Flower, no global
state. A `Holder` is one client's side, an `Exchange` the server's.
"""

from fedballot.wire.secagg.client import Holder, Mark
from fedballot.wire.secagg.messages import CONFIRM, KEYS, MASKED, SHARES, STAGES, UNMASK, SecaggError
from fedballot.wire.secagg.plan import Form, Plan, make_plan
from fedballot.wire.secagg.server import Exchange

__all__ = [
    "CONFIRM",
    "KEYS",
    "MASKED",
    "SHARES",
    "STAGES",
    "UNMASK",
    "Exchange",
    "Form",
    "Holder",
    "Mark",
    "Plan",
    "SecaggError",
    "make_plan",
]
