"""A federation as a classifier of scikit-learn: what clients would reach together, with the guarantee beside it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted, check_X_y, validate_data

from fedballot.api.experiment import run
from fedballot.api.objects import check_index, stored_arrays
from fedballot.core.errors import SettingsError
from fedballot.core.folders import RECORD
from fedballot.core.setting import names_of
from fedballot.methods.registry import get_method
from fedballot.model.files import parts_of
from fedballot.model.loaded import Model, load, read_description
from fedballot.privacy.guarantee import Guarantee

PUBLIC_SHARE = 0.25  # of the records, where no public pool is given
MEASURED = 200  # training records on which a run measures itself, where it is given no others


class FederatedClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Clients that share predictions on public records under differential privacy, simulated on this machine.

    Parameters
    ----------
    method : str
        A method whose server has a model, such as ``pate-fl``, ``private-knn-fl`` or ``fedkd-dp``.
    epsilon : float, optional
        Of the method's guarantee; infinity: no noise. None: the method's default.
    clients : int
        To whom the records of a single array are dealt.
    client_model, server_model : str or classifier, optional
        What clients train, and what the server learns; see ``docs/models.md``. None: random forests, where the method
        trains any.
    random_state : int
        Of splits and models; the noise is drawn anew each time.
    out : path, optional
        Folder in which the run is kept, a new one; None: it is gone once the model is made.
    settings : mapping, optional
        Further settings of the method.

    Attributes
    ----------
    classes_ : ndarray (C,)
    n_features_in_ : int
    guarantee_ : Guarantee
        What the run promises.
    result_ : Result
        The run. Its accuracies are on ``test``, or else on training records.

    Examples
    --------
    >>> model = FederatedClassifier("pate-fl", epsilon=4.0)
    >>> model.fit([x_one, x_two], [y_one, y_two], public=x_public)  # doctest: +SKIP
    >>> model.guarantee_.sentence()  # doctest: +SKIP
    """

    def __init__(
        self,
        method: str = "pate-fl",
        *,
        epsilon: float | None = None,
        clients: int = 10,
        client_model: Any = None,
        server_model: Any = None,
        random_state: int = 0,
        out: str | Path | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self.method = method
        self.epsilon = epsilon
        self.clients = clients
        self.client_model = client_model
        self.server_model = server_model
        self.random_state = random_state
        self.out = out
        self.settings = settings

    def fit(
        self,
        X: Any,
        y: Any,
        *,
        public: Any = None,
        test: tuple[Any, Any] | None = None,
    ) -> Self:
        """Run the method.

        Parameters
        ----------
        X, y
            Records (n, d) of numbers and classes (n,), dealt to ``clients``; or lists of them, one for each client.
            Columns of data frames are taken by name.
        public
            Public records (m, d) without classes. None: a quarter of a single X, drawn at random, is public.
        test
            Records and classes on which ``result_`` measures.

        Raises
        ------
        ValueError
            If arrays do not fit, as scikit-learn has it.
        SettingsError
            If a setting cannot work, or public records are missing.
        """
        listed = isinstance(X, list | tuple) and isinstance(y, list | tuple) and np.ndim(y[0]) > 0
        if listed and public is None:
            raise SettingsError("public: missing; clients that hold their own records need a public pool")
        groups = np.repeat(np.arange(len(X)), [len(one) for one in X]) if listed else None
        for records, classes in zip(X, y, strict=True) if listed else [(X, y)]:
            check_index("X", records, classes)
        x, labels = (joined(X), np.concatenate(y)) if listed else (X, y)
        names = getattr(x, "columns", None)
        x, labels = validate_data(self, x, labels, dtype=np.float32)
        check_classification_targets(labels)
        self.classes_ = np.unique(labels)
        if len(self.classes_) < 2:
            raise ValueError(f"y holds one class, {self.classes_[0]!r}; a classifier needs two at least")
        numbers = np.searchsorted(self.classes_, labels)
        if public is None:
            rows = np.random.default_rng(self.random_state).permutation(len(x))
            pool, rest = np.split(rows, [max(1, int(PUBLIC_SHARE * len(x)))])
            public, x, numbers = x[pool], x[np.sort(rest)], numbers[np.sort(rest)]
        else:
            public = validate_data(self, in_order(public, names, "public"), dtype=np.float32, reset=False)
        if test is not None:
            check_index("test", *test)
            test = (in_order(test[0], names, "test"), test[1])
        test_x, test_y = self._tested(x, numbers, test)
        dealt = {"partition": "by-group", "clients": len(X)} if listed else {"clients": min(self.clients, len(x))}
        if groups is None:
            groups = np.zeros(len(x), np.int64)
        everything = {"x_train": x, "y_train": numbers, "groups": groups, "x_test": test_x, "y_test": test_y}
        nothing = np.where(np.arange(len(public)) % 2, "public", "pool")  # classes of no meaning, which nobody reads
        values = {
            "dataset": stored_arrays(everything),
            "public_dataset": stored_arrays({"x": public, "y": nothing}),
            "public_size": len(public),
            "test_size": 0,
            "test_source": "private",
            "public_labels": "ignored",
            "seed": self.random_state,
            "workers": 1,
            **dealt,
            **self._chosen(),
            **(self.settings or {}),
        }
        with tempfile.TemporaryDirectory(prefix="fedballot-") as scratch:
            folder = Path(scratch) / "run" if self.out is None else Path(self.out)
            self.result_ = run(self.method, out=folder, progress=False, page=self.out is not None, **values)
            names = (RECORD, "result.json", "model.json", *parts_of(read_description(folder)))
            self._files = {name: (folder / name).read_bytes() for name in names}
        self._model = load_files(self._files)
        return self

    def _chosen(self) -> dict[str, Any]:
        """What stands in place of the method's defaults, of what it has."""
        names = names_of(get_method(self.method).settings)
        usual = {"client_models": ["random-forest"], "server_model": "random-forest", "epsilon": None}
        given = {
            "client_models": None if self.client_model is None else [self.client_model],
            "server_model": self.server_model,
            "epsilon": self.epsilon,
        }
        chosen = {name: usual[name] if value is None else value for name, value in given.items()}
        return {key: value for key, value in chosen.items() if value is not None and (key in names or given[key])}

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_model"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "_files" in state:
            self._model = load_files(state["_files"])

    @property
    def guarantee_(self) -> Guarantee:
        """What the run promises."""
        check_is_fitted(self)
        promise = self.result_.guarantee
        assert promise is not None
        return promise

    def predict_proba(self, X: Any) -> npt.NDArray[np.float64]:
        """Probabilities (n, C), columns as ``classes_``."""
        check_is_fitted(self)
        x = validate_data(self, X, dtype=np.float32, reset=False)
        out = np.zeros((len(x), len(self.classes_)))
        out[:, [int(word) for word in self._model.classes]] = self._model.predict_proba(x)
        return out

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The likeliest class (n,)."""
        check_is_fitted(self)
        return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])

    def _tested(self, x: Any, numbers: Any, test: tuple[Any, Any] | None) -> tuple[Any, Any]:
        if test is None:
            rows = np.random.default_rng(self.random_state).permutation(len(x))[:MEASURED]
            return x[rows], numbers[rows]
        test_x, test_y = check_X_y(test[0], test[1], dtype=np.float32)
        known = np.isin(test_y, self.classes_)
        if not known.all():
            raise ValueError(f"test holds the class {test_y[~known][0]!r}, which no training record has")
        return check_array(test_x), np.searchsorted(self.classes_, test_y)


def in_order(records: Any, names: Any, what: str) -> Any:
    """A data frame's columns in the order of ``names``; arrays as they are.

    Raises
    ------
    ValueError
        If a column is missing, or names are known on one side only.
    """
    own = getattr(records, "columns", None)
    if own is None and names is None:
        return records
    if own is None or names is None:
        raise ValueError(f"{what}: data frames and arrays do not go together: columns are taken by name; give one kind")
    if lacking := [name for name in names if name not in own]:
        raise ValueError(f"{what}: has no column {lacking[0]!r}; expected {', '.join(map(str, names))}")
    if strange := [name for name in own if name not in names]:
        raise ValueError(f"{what}: column {strange[0]!r} is not in the first of X; leave it out")
    return records[list(names)]


def joined(parts: Sequence[Any]) -> Any:
    """The records of all clients; columns of data frames in the order of the first."""
    names = getattr(parts[0], "columns", None)
    ordered = [in_order(one, names, f"X[{place}]") for place, one in enumerate(parts)]
    if names is None:
        return np.concatenate(ordered)
    import pandas as pd

    return pd.concat(ordered, ignore_index=True)


def load_files(files: Mapping[str, bytes]) -> Model:
    """A run's model from the content of its files."""
    with tempfile.TemporaryDirectory(prefix="fedballot-") as scratch:
        for name, content in files.items():
            (Path(scratch) / name).parent.mkdir(parents=True, exist_ok=True)
            (Path(scratch) / name).write_bytes(content)
        return load(scratch)
