"""The one noise-free sample of a client's records, which a ledger keeps like a release."""

import numpy as np
from numpy.typing import NDArray

from fedballot.core.errors import SettingsError
from fedballot.privacy.accounting import DeltaCost
from fedballot.privacy.ledger.ledger import Ledger
from fedballot.privacy.mechanisms.nfdp import NfdpSample
from fedballot.privacy.noise.randomness import NoiseSource

SAMPLE = "nfdp sample"  # request under which the index set is kept


def sample_once(
    ledger: Ledger, sample: NfdpSample, noise: NoiseSource, cost: DeltaCost | None = None, *, version: str = ""
) -> NDArray[np.int64]:
    """Return the one NFDP index set of these records, drawn and charged at the first call, the same ever after.

    Parameters
    ----------
    ledger : Ledger
    sample : NfdpSample
    noise : NoiseSource
    cost : DeltaCost, optional
        What it is charged as, no less than its own cost, which it is by default.
    version : str
        Of the records: others have a sample of their own, at a charge of its own.

    Returns
    -------
    ndarray of int64, shape (k,)

    Raises
    ------
    SettingsError
        If the cost is too small.
    BudgetError
        If it would exceed the budget.
    RequestError
        If a sample of another size is kept here.
    """
    charge = sample.cost() if cost is None else cost
    if charge.delta < sample.delta:
        raise SettingsError(f"cost = {charge.delta:g}: the sample's own is {sample.delta:g}.")
    return ledger.release(
        f"{SAMPLE} {version}".rstrip(),
        {"sample": charge},
        lambda: {"sample": sample.draw(noise)},
        digest=f"n={sample.n} k={sample.k} replacement={sample.replacement}",
        seeded=not noise.private,
    )["sample"]
