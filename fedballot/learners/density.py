"""How much denser one set of records is than another, at any point: kernel unconstrained least-squares fitting.

Source: Kanamori, Suzuki and Sugiyama 2012, "Statistical analysis of kernel-based least-squares density-ratio
estimation", equations 5 and 6 (KuLSIF).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve
from scipy.spatial.distance import cdist, pdist

Floats = npt.NDArray[np.floating]

WIDTH = 0.4  # of the kernel, in median distances; chosen on USPS, where .3 to .6 do alike
COMPARED = 500  # records whose distances are looked at
_BLOCK = 4096


def kernel_width(records: Floats) -> float:
    """Width of the kernel: :data:`WIDTH` times the median distance of records (n, d); the first :data:`COMPARED`."""
    distances = pdist(np.asarray(records[:COMPARED], dtype=np.float64))
    return max(WIDTH * float(np.median(distances)), 1e-9) if len(distances) else 1.0


def kernel(left: Floats, right: Floats, width: float) -> npt.NDArray[np.float64]:
    """Gaussian kernel exp(-|a - b|^2 / (2 width^2)), (n, m), of rows (n, d) and (m, d)."""
    squares = cdist(np.asarray(left, np.float64), np.asarray(right, np.float64), "sqeuclidean")
    return np.asarray(np.exp(squares / (-2 * width**2)))


def density_ratio(x: Floats, above: Floats, below: Floats, width: float) -> npt.NDArray[np.float64]:
    """Estimate of p/q at each row of ``x`` (n, d), from samples of p and of q.

    w(x) = sum_j a_j k(x, z_j) + sum_i k(x, x_i) / (m lambda), where (K/n + lambda) a = -b / lambda, K is the kernel
    among the n samples z of q and b_j the sum of k(z_j, x_i) / (n m) over the m samples x of p. lambda = n^(-1/2).
    The authors of Selective-FD multiply by K/n + lambda in their published code where this solves for a.

    Parameters
    ----------
    above, below
        Samples (m, d) of p and (n, d) of q; at least one each.
    width
        Of the Gaussian kernel, see :func:`kernel_width`.
    """
    n = len(below)
    penalty = n**-0.5
    system = kernel(below, below, width) / n + penalty * np.eye(n)
    weights = solve(system, -kernel(below, above, width).mean(axis=1) / (n * penalty), assume_a="pos")
    blocks = (x[start : start + _BLOCK] for start in range(0, len(x), _BLOCK))
    parts = [kernel(b, below, width) @ weights + kernel(b, above, width).mean(axis=1) / penalty for b in blocks]
    return np.concatenate(parts) if parts else np.zeros(0)
