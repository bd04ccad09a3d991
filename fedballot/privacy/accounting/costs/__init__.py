"""The costs that fedballot's mechanisms have, by kind of noise."""

from fedballot.privacy.accounting.costs.gaussian import GaussianCost, IntegerCost
from fedballot.privacy.accounting.costs.mass import DeltaCost
from fedballot.privacy.accounting.costs.pure import LaplaceCost, PureCost
from fedballot.privacy.accounting.costs.sampled import CohortCost, PoissonCost

__all__ = ["CohortCost", "DeltaCost", "GaussianCost", "IntegerCost", "LaplaceCost", "PoissonCost", "PureCost"]
