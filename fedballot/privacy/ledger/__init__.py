"""What a client has spent, on its own disk: the ledger, and what else is kept of it.

- `ledger`: charge, then release, once for each request; `reader`: what can be asked of it; `samples`: a kept sample
- `chain`, `spending`, `account`: its lines as a value; `lines`, `releases`, `lock`: files
- `copies`, `restore`: backups; `heads`: what a server remembers; `reconcile`: charges against guarantees
"""

from fedballot.privacy.ledger.account import Account, BudgetError, Costs, RequestError, Version
from fedballot.privacy.ledger.chain import Chain
from fedballot.privacy.ledger.ledger import Admission, Ledger
from fedballot.privacy.ledger.lines import FORMAT, Line
from fedballot.privacy.ledger.reader import LedgerReader
from fedballot.privacy.ledger.releases import Arrays
from fedballot.privacy.ledger.spending import Lost, Spending

__all__ = [
    "FORMAT",
    "Account",
    "Admission",
    "Arrays",
    "BudgetError",
    "Chain",
    "Costs",
    "Ledger",
    "LedgerReader",
    "Line",
    "Lost",
    "RequestError",
    "Spending",
    "Version",
]
