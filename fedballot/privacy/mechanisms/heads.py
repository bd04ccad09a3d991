"""Private linear heads: regularised multinomial logistic regression with output perturbation.

J(W) = (1/n) sum_i loss(W; x_i, y_i) + lambda/2 |W|^2 with |x_i| <= 1 is lambda-strongly convex, and one record changes
its gradient by at most 2 sqrt(2)/n, for |p - e_y| <= sqrt(2) whatever the number of classes: the L2 sensitivity of the
minimiser is 2 sqrt(2)/(lambda n). Source of the mechanism: "FedAUXfdp: Differentially private one-shot federated
distillation", Theorem 1, whose 2 sqrt(C)/(lambda n) is valid and sqrt(C/2) times larger. A solver that stops at a
gradient of norm g is at most g/lambda away from the minimiser, so 2 g/lambda is added.

A logistic regression with one head w and regularisation lambda is the case C = 2 with 2 lambda: w = W_1 - W_0.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedballot.core.errors import DataError, RunError, SettingsError
from fedballot.privacy.accounting import IntegerCost, check_records, gaussian
from fedballot.privacy.guarantee import Unit
from fedballot.privacy.mechanism import Mechanism
from fedballot.privacy.mechanisms.vectors import NoisyVector, clip_rows
from fedballot.privacy.noise.randomness import NoiseSource

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Head:
    """A solution with its certificate.

    Parameters
    ----------
    weights : ndarray of float64, shape (C, p)
        Sums to zero over the classes.
    gradient_norm : float
        L2 norm of the gradient of J at `weights`.
    """

    weights: Floats
    gradient_norm: float


@dataclass(frozen=True)
class PrivateHead(Mechanism):
    """The mechanism: n records of p features (the constant one included), C classes; record level, replace-one.

    Parameters
    ----------
    records, features, classes : int
        All public; `classes` is the global label set, also for a client that holds one class.
    lam : float
        Regularisation lambda; scikit-learn's C is 1/(lambda n), with fit_intercept=False.
    sigma : float
        Noise on each weight.
    """

    records: int
    features: int
    classes: int
    lam: float
    sigma: float

    def __post_init__(self) -> None:
        if self.records < 1 or self.features < 1 or self.classes < 2:
            raise SettingsError(
                f"records = {self.records}, features = {self.features}, classes = {self.classes}: "
                "must be at least 1, 1 and 2."
            )
        gaussian.check_positive("lam", self.lam)
        gaussian.check_positive("sigma", self.sigma)

    @property
    def max_gradient(self) -> float:
        """Public bound on the certificate: at most 1e-6, and a thousandth of the sensitivity at most."""
        return min(1e-6, 1e-3 * math.sqrt(2) / self.records)

    @property
    def mechanism(self) -> NoisyVector:
        """The noisy release of the weights."""
        return NoisyVector(
            sensitivity(self.lam, self.records, self.max_gradient), self.classes * self.features, self.sigma
        )

    def cost(self, unit: Unit = "record", records_per_person: int = 1) -> IntegerCost:
        """Return what the release costs a record, or all of a person's records, at most so many."""
        return self.mechanism.cost(sensitivity(self.lam, self.records, self.max_gradient, records_per_person))

    @classmethod
    def solve(
        cls, epsilon: float, delta: float, *, records: int, features: int, classes: int, lam: float
    ) -> "PrivateHead":
        """Return the mechanism with the smallest sigma whose epsilon is at most the target."""
        start = cls(records, features, classes, lam, 1.0)
        reach = sensitivity(lam, records, start.max_gradient)
        sigma = NoisyVector.solve(epsilon, delta, sensitivity=reach, coordinates=classes * features).sigma
        return cls(records, features, classes, lam, sigma)

    def certify(self, head: Head) -> Head:
        """Return the head if it may be released.

        Raises
        ------
        RunError
            If the solver's certificate is worse than `max_gradient`.
        """
        if head.weights.shape != (self.classes, self.features):
            raise DataError(f"weights: expected {(self.classes, self.features)}, got {head.weights.shape}.")
        if not head.gradient_norm <= self.max_gradient:
            raise RunError(
                f"head: gradient norm {head.gradient_norm:.2e} is above {self.max_gradient:.2e}, so the sensitivity "
                "does not hold; nothing was released. Raise lam."
            )
        return head

    def release(self, head: Head, noise: NoiseSource) -> Floats:
        """Add noise and project on the weights that sum to zero over the classes, where the solution lies.

        Raises
        ------
        RunError
            As :meth:`certify`.
        """
        self.certify(head)
        noisy = self.mechanism.release(head.weights, noise) * self.mechanism.grid
        return np.asarray(noisy - noisy.mean(axis=0), dtype=np.float64)


def sensitivity(lam: float, records: int, gradient_norm: float = 0.0, records_per_person: int = 1) -> float:
    """Return 2 sqrt(2) b/(lambda n) + 2 g/lambda, replacing b records, for any number of classes.

    Each of the b records changes the gradient by at most 2 sqrt(2)/n; there are two solutions whatever b is, hence the
    solver's slack once. No more than n records can be replaced.
    """
    check_records(records_per_person)
    return 2 * math.sqrt(2) * min(records_per_person, records) / (lam * records) + 2 * gradient_norm / lam


def binary_sensitivity(lam: float, records: int) -> float:
    """Return 2/(lambda n) of logistic regression with one head; n counts private and public records alike."""
    return 2 / (lam * records)


def sklearn_c(lam: float, records: int) -> float:
    """Return the C with which scikit-learn's LogisticRegression (fit_intercept=False) minimises the same J."""
    return 1 / (lam * records)


def prepare(features: NDArray[np.floating], bound: float, constant: float = 0.5) -> Floats:
    """Clip each record to the public bound and put a constant feature inside the unit ball: (b, sqrt(1 - b^2) h/B).

    Dividing by the largest norm in the data, as the paper does, would let one record move all others.
    """
    if not 0 < constant < 1:
        raise SettingsError(f"constant = {constant}: must lie strictly between 0 and 1.")
    scaled = clip_rows(features, bound) * (math.sqrt(1 - constant**2) / bound)
    return np.hstack([np.full((len(scaled), 1), constant), scaled])


def fit_head(
    features: Floats,
    labels: NDArray[np.integer],
    classes: int,
    lam: float,
    counts: NDArray[np.floating] | None = None,
) -> Head:
    """Minimise J by Newton steps with conjugate gradients, in float64, to the limits of its arithmetic.

    Parameters
    ----------
    features : ndarray of float64, shape (n, p)
        Rows of norm at most 1, see `prepare`.
    labels : ndarray of int, shape (n,)
        0 to classes - 1.
    classes : int
    lam : float
    counts : ndarray, shape (n,), optional
        How often each row occurs.

    Returns
    -------
    Head
        The caller compares its certificate with what its mechanism allows.

    Raises
    ------
    DataError
        If shapes or labels do not fit, or a row is longer than 1.
    """
    from scipy.special import logsumexp, softmax

    features = np.asarray(features, dtype=np.float64)
    labels = np.asarray(labels)
    gaussian.check_positive("lam", lam)
    _check(features, labels, classes)
    weight = np.ones(len(features)) if counts is None else np.asarray(counts, dtype=np.float64)
    weight = weight / weight.sum()
    target = np.zeros((len(labels), classes))
    target[np.arange(len(labels)), labels] = 1.0

    def value(w: Floats) -> float:
        logits = features @ w.T
        losses = logsumexp(logits, axis=1) - np.sum(logits * target, axis=1)
        return float(weight @ losses + lam / 2 * np.sum(w * w))

    def gradient(w: Floats) -> tuple[Floats, Floats]:
        p = softmax(features @ w.T, axis=1)
        return ((p - target) * weight[:, None]).T @ features + lam * w, p

    w = np.zeros((classes, features.shape[1]))
    g, p = gradient(w)
    goal = min(1e-7, 1e-4 * math.sqrt(2) * float(weight.min()))  # a tenth of what a mechanism allows
    for _ in range(100):
        norm = float(np.linalg.norm(g))
        if norm <= goal:
            break
        step = _newton_step(features, weight, p, lam, g, min(1e-2, math.sqrt(norm)))
        length, before = 1.0, value(w)
        while length > 1e-10:
            trial = w + length * step
            trial_g, trial_p = gradient(trial)
            # near the minimum J no longer resolves progress, the gradient still does
            if np.linalg.norm(trial_g) < norm * (1 - length / 10) and value(trial) <= before + 1e-12 * abs(before):
                break
            length /= 2
        else:
            break
        w, g, p = trial, trial_g, trial_p
    return Head(w, float(np.linalg.norm(g)))


def _newton_step(features: Floats, weight: Floats, p: Floats, lam: float, g: Floats, rtol: float) -> Floats:
    from scipy.sparse.linalg import LinearOperator, cg

    def hessian(flat: Floats) -> Floats:
        v = flat.reshape(g.shape)
        z = features @ v.T
        inner = p * (z - np.sum(p * z, axis=1, keepdims=True))
        return np.asarray((inner * weight[:, None]).T @ features + lam * v, dtype=np.float64).ravel()

    operator = LinearOperator((g.size, g.size), matvec=hessian, dtype=np.float64)
    step, _ = cg(operator, -g.ravel(), rtol=rtol, maxiter=10 * g.size)
    return np.asarray(step).reshape(g.shape)


def _check(features: Floats, labels: NDArray[np.integer], classes: int) -> None:
    if features.ndim != 2 or labels.shape != (len(features),) or not len(features):
        raise DataError(f"features {features.shape} and labels {labels.shape}: expected (n, p) and (n,), n >= 1.")
    if not np.issubdtype(labels.dtype, np.integer) or labels.min() < 0 or labels.max() >= classes:
        raise DataError(f"labels: must be integers from 0 to {classes - 1}.")
    norms = np.linalg.norm(features, axis=1)
    if not np.all(norms <= 1 + 1e-9):
        row = int(np.flatnonzero(~(norms <= 1 + 1e-9))[0])
        raise DataError(f"features: row {row} has norm {norms[row]:.6g}, the guarantee needs at most 1; see prepare().")
