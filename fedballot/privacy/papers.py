"""Formulas exactly as the papers print them, to reproduce their tables. None is used to protect anybody."""

from fedballot.privacy.guarantee import Unit


def votes_rho(unit: Unit, queries: int, sigma: float, k: int | None = None) -> float:
    """Return rho, Renyi DP being alpha * rho, of `queries` noisy votes.

    Source: "Voting-based approaches for differentially private federated learning", Theorem 3: agent Q/(2 sigma^2),
    record Q/sigma^2, with kNN Q/(k sigma^2). All hold; the last is loose by a factor k.
    """
    if unit == "agent":
        return queries / (2 * sigma**2)
    return queries / ((k or 1) * sigma**2)
