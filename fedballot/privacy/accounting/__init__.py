"""What releases cost, as data, and the accountants that add costs up.

Everything that other rooms ask for is here: ``from fedballot.privacy import accounting``. Formulas of one kind of noise
are in `gaussian`, `discrete` and `sampling`; those of the papers, as printed, in `papers`.
"""

from fedballot.privacy.accounting.checks import check_records, times_words, too_large
from fedballot.privacy.accounting.composition import epsilon, total_mass
from fedballot.privacy.accounting.cost import Accountant, Cost, NearGaussian, from_plain, register_cost, to_plain
from fedballot.privacy.accounting.costs import (
    CohortCost,
    DeltaCost,
    GaussianCost,
    IntegerCost,
    LaplaceCost,
    PoissonCost,
    PureCost,
)
from fedballot.privacy.accounting.discrete import shares_that_came
from fedballot.privacy.accounting.filter import ALLOWANCE, FILTERS, Filter, late_sampling, least_budget
from fedballot.privacy.accounting.search import crossing, largest_count, smallest

__all__ = [
    "ALLOWANCE",
    "FILTERS",
    "Accountant",
    "CohortCost",
    "Cost",
    "DeltaCost",
    "Filter",
    "GaussianCost",
    "IntegerCost",
    "LaplaceCost",
    "NearGaussian",
    "PoissonCost",
    "PureCost",
    "check_records",
    "crossing",
    "epsilon",
    "from_plain",
    "largest_count",
    "late_sampling",
    "least_budget",
    "register_cost",
    "shares_that_came",
    "smallest",
    "times_words",
    "to_plain",
    "too_large",
    "total_mass",
]
