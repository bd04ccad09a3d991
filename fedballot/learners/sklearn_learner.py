"""Any classifier in the manner of scikit-learn behind the Learner protocol."""

import math
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from fedballot.core.errors import DataError, RunError, SettingsError
from fedballot.core.files import write_atomic
from fedballot.learners import checks, storage
from fedballot.learners.base import Loss, Progress
from fedballot.learners.boosted import Staged
from fedballot.learners.checks import PSEUDO_LABEL_THRESHOLD, FloatArray, Inputs, IntArray
from fedballot.learners.estimators import homes_of, is_model, weight_name
from fedballot.learners.fitted import Fitted, fit_template
from fedballot.learners.objectives import Objective, name_of
from fedballot.learners.options import LearnerOptions
from fedballot.learners.without_weights import WithoutWeights

_FLOOR = 1e-12
_FOLDS = 3
_REFITS = 2

# what scikit-learn's classifiers hold beside the types that skops itself trusts; none of them can run code
_TRUSTED = [
    "collections.OrderedDict",
    "numpy.dtype",
    *(
        f"sklearn.calibration.{name}"
        for name in ("_CalibratedClassifier", "_SigmoidCalibration", "_TemperatureScaling")
    ),
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    *(f"sklearn.feature_selection._univariate_selection.{name}" for name in ("chi2", "f_classif")),
    "sklearn.gaussian_process._gpc._BinaryGaussianProcessClassifierLaplace",
    "sklearn.metrics._scorer._PassthroughScorer",
    "sklearn.model_selection._split.StratifiedKFold",
    "sklearn.multiclass._ConstantPredictor",
    "sklearn.neighbors._ball_tree.BallTree",
    "sklearn.neighbors._kd_tree.KDTree",
    *(f"sklearn.neural_network._stochastic_optimizers.{name}" for name in ("AdamOptimizer", "SGDOptimizer")),
    "sklearn.tree._tree.Tree",
    "sklearn.utils._bunch.Bunch",
]
_TRUSTED_FAMILIES = ("sklearn.gaussian_process.kernels.", "sklearn.metrics._dist_metrics.")


class ScikitLearner(WithoutWeights):
    """A classifier with ``fit`` and scores of classes, of which ``template`` is an unfitted one.

    Build it with ``registry.make_learner``. Each training starts anew: ``fit`` after ``distill`` forgets the distilled
    knowledge. Images are flattened and scaled to [0, 1]; feature vectors are taken as they are.
    """

    warm_start = False

    def __init__(
        self,
        name: str,
        options: LearnerOptions,
        template: Any,
    ) -> None:
        self.name = name
        self.n_classes, self.input_shape, self._seed = options.n_classes, options.input_shape, options.seed
        self._template = template
        self._weighted = weight_name(template) is not None
        self._homes = homes_of(template)
        self._outputs = options.n_classes
        self._fitted_model: Fitted | None = None

    def fit(
        self,
        x: Inputs,
        y: IntArray,
        *,
        objective: Objective | None = None,
        epochs: int | None = None,
    ) -> Self:
        """See ``Learner.fit``; an objective's records are drawn once, for there are no epochs."""
        if objective is not None and objective.needs_gradients:
            raise SettingsError(
                f"learner {self.name!r} is scikit-learn's and has no gradients, which {name_of(objective)} needs: use "
                "a torch learner"
            )
        flat = self._flat(x)
        checks.check_labels(y, len(x), self.n_classes)
        self._outputs = self.n_classes
        weights = np.ones(len(x))
        for part in objective.records(self.n_classes) if objective else ():
            pool = self._flat(part.x, what="an objective's x")
            checks.check_labels(part.y, len(pool), self.n_classes + 1, what="an objective's y")
            rows = np.random.default_rng(self._seed).permutation(len(pool))[: len(x)]
            flat = np.concatenate([flat, pool[rows]])
            y = np.concatenate([y, part.y[rows]])
            weights = np.concatenate([weights, np.full(len(rows), part.weight)])
            self._outputs = max(self._outputs, int(part.y.max()) + 1)
        self._fitted_model = self._fitted(flat, y, weights)
        return self

    def distill(
        self,
        x: Inputs,
        targets: FloatArray,
        *,
        weights: FloatArray | None = None,
        epochs: int | None = None,
        batch_size: int | None = None,
        loss: Loss = "cross-entropy",
        temperature: float = 1.0,
        progress: Progress | None = None,
    ) -> Self:
        """See ``Learner.distill``: each example once per class, weighted by its target.

        Estimators that take no sample weights are trained on the likeliest class.
        """
        flat = self._flat(x)
        if loss != "cross-entropy":
            checks.check_logits(targets, len(x), self.n_classes)
            targets = softmax(targets.astype(np.float64), axis=1)
        weighted = checks.check_targets(targets, len(x), self.n_classes, weights)
        if self._weighted:
            # a soft label of under 1 % costs as much as one of 99 % and teaches nothing
            rows, classes = np.nonzero(weighted * (targets >= 0.01))
        else:
            rows = np.flatnonzero(weighted.sum(axis=1))
            classes = targets.argmax(axis=1)[rows]
        self._outputs = self.n_classes
        self._fitted_model = self._fitted(flat[rows], classes, weighted[rows, classes])
        if progress:
            progress(1, 1)
        return self

    def semi_supervise(
        self,
        x: Inputs,
        labels: IntArray,
        confidence: FloatArray | None,
        *,
        self_train: bool,
        prior: FloatArray | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """See ``Learner.semi_supervise``.

        Pseudo-labels come from fits on the other folds, for a forest or a neighbour search would only repeat
        its own labels; where they reach .8 they replace the given label, and then the learner is fitted
        again.
        """
        flat = self._flat(x)
        checks.check_labels(labels, len(x), self.n_classes, what="labels")
        confident = checks.most_confident(confidence, len(x))
        labels = labels.astype(np.int64)
        rounds = _REFITS if self_train and confident.sum() >= 2 * _FOLDS else 0
        self._outputs = self.n_classes
        for done in range(rounds):
            p = self._out_of_fold(flat, labels, confident)
            p /= np.maximum(p.mean(axis=0), 1e-6)
            p = p if prior is None else p * prior
            p /= p.sum(axis=1, keepdims=True)
            sure = p.max(axis=1) >= PSEUDO_LABEL_THRESHOLD
            labels = np.where(sure, p.argmax(axis=1), labels)
            confident = confident | sure
            if progress:
                progress(done + 1, rounds + 1)
        self._fitted_model = self._fitted(flat[confident], labels[confident], np.ones(int(confident.sum())))
        if progress:
            progress(rounds + 1, rounds + 1)
        return self

    def predict_logits(self, x: Inputs) -> FloatArray:
        """Log-probabilities, at least log(1e-12); see ``Learner.predict_logits``."""
        flat = self._flat(x)
        p = self._trained().probabilities(flat, self._outputs)
        return np.asarray(np.log(np.maximum(p, _FLOOR)), dtype=np.float32)

    def features(self, x: Inputs) -> FloatArray:
        """Square roots of the predicted probabilities (n, C): unit vectors, close for alike predictions."""
        flat = self._flat(x)
        p = self._trained().probabilities(flat, self._outputs)
        return np.asarray(np.sqrt(p / p.sum(axis=1, keepdims=True)), dtype=np.float32)

    def save(self, path: Path) -> None:
        """Write skops. See ``Learner.save``."""
        content = self.dumps()
        write_atomic(path, lambda file: file.write(content))

    def dumps(self) -> bytes:
        """The content of a file.

        Raises
        ------
        SettingsError
            If the estimator holds types beyond the trusted list, so that it could not be loaded safely again.
        """
        from fedballot.core import skops_io  # a second that training does not need

        fitted = self._trained()
        estimator = fitted.estimator
        state: dict[str, Any] = self._identity() | {"outputs": self._outputs, "estimator": estimator}
        if isinstance(estimator, Staged):
            state["estimator"] = estimator.content()
        if fitted.encoded:
            state["seen"] = np.asarray(fitted.classes)
        try:
            content: bytes = skops_io.dumps(state)
        except Exception as error:  # whatever an estimator of another package raises when it is looked into
            raise SettingsError(
                f"learner {self.name!r} cannot be stored safely: {type(error).__name__}: {error}"
            ) from error
        strange = skops_io.get_untrusted_types(data=content)
        if foreign := sorted(set(strange) - set(self._trusted(strange))):
            raise SettingsError(f"learner {self.name!r} cannot be stored safely: it holds {', '.join(foreign)}")
        return content

    def load(self, path: Path) -> Self:
        """Read skops. See ``Learner.load``."""
        return self.loads(storage.read_bytes(path), path)

    def loads(self, content: bytes, path: Path) -> Self:
        """Take up what :meth:`dumps` gave; ``path`` is for the error's words."""
        from fedballot.core import skops_io

        try:
            state = skops_io.loads(content, trusted=self._trusted(skops_io.get_untrusted_types(data=content)))
        except Exception as error:  # skops raises whatever zip, JSON or numpy raise
            raise DataError(
                f"{path}: not a skops file, a damaged one, or one with untrusted types ({error})"
            ) from error
        if not isinstance(state, dict):
            raise DataError(f"{path}: holds a {type(state).__name__}, not a saved learner")
        storage.check_owner(path, state, self._identity())
        try:
            self._outputs, self._fitted_model = int(state["outputs"]), self._read(state)
        except Exception as error:  # whatever another library makes of a damaged model
            raise DataError(f"{path}: holds no fitted classifier ({type(error).__name__}: {error})") from error
        return self

    def _read(self, state: dict[str, Any]) -> Fitted:
        estimator = state["estimator"]
        if isinstance(estimator, dict):
            return Fitted(Staged.of_content(estimator), state["seen"], True)
        if not is_model(estimator):
            raise TypeError(f"a {type(estimator).__name__}")
        encoded = "seen" in state
        return Fitted(estimator, state["seen"] if encoded else estimator.classes_, encoded)

    def _trusted(self, strange: list[str]) -> list[str]:
        """Types that may be loaded: of an estimator of another package its own as well, for that runs here anyway."""
        families = (*_TRUSTED_FAMILIES, *(f"{home}." for home in self._homes))
        return [*_TRUSTED, *(name for name in strange if name.startswith(families))]

    def _identity(self) -> dict[str, Any]:
        shape = "x".join(str(size) for size in self.input_shape)
        return {
            "format": "fedballot-skops-1",
            "learner": self.name,
            "classes": str(self.n_classes),
            "inputs": shape,
        }

    def _fitted(self, flat: NDArray[Any], y: IntArray, weights: NDArray[np.float64]) -> Fitted:
        return fit_template(self._template, flat, y, weights, encode=bool(self._homes))

    def _out_of_fold(self, flat: NDArray[Any], labels: IntArray, confident: NDArray[np.bool_]) -> NDArray[np.float64]:
        fold = np.random.default_rng(self._seed).permutation(len(flat)) % _FOLDS
        p = np.zeros((len(flat), self.n_classes))
        for number in range(_FOLDS):
            train, test = (fold != number) & confident, fold == number
            fitted = self._fitted(flat[train], labels[train], np.ones(int(train.sum())))
            p[test] = fitted.probabilities(flat[test], self._outputs)
        return p

    def _trained(self) -> Fitted:
        if self._fitted_model is None:
            raise RunError(f"learner {self.name!r} has not been trained: call fit, distill, semi_supervise or load")
        return self._fitted_model

    def _flat(self, x: Inputs, *, what: str = "x") -> NDArray[Any]:
        checks.check_inputs(x, self.input_shape, what=what)
        if x.dtype == np.uint8:
            return x.reshape(len(x), math.prod(self.input_shape)).astype(np.float32) / 255
        return np.asarray(x)
