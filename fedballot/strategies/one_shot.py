"""What a Strategy of one round does: combine the answers, keep that in the checkpoint, then learn from it."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from fedballot.core.errors import FedballotError, RunError
from fedballot.core.files import write_arrays
from fedballot.core.folders import RunFolder
from fedballot.core.metrics import accuracy, of_labels, of_scores
from fedballot.datasets.federation import FederatedData
from fedballot.learners.base import Learner
from fedballot.settings.parts import CommonSettings, server_models
from fedballot.strategies.base import Answer, BallotStrategy
from fedballot.strategies.folds import Fold

S = TypeVar("S", bound=CommonSettings)
Kept = dict[str, npt.NDArray[Any]]
SERVER = -1 % 2**32  # the number of the server among those who draw noise
SHOWN = 64  # public images kept for the report


@dataclass(frozen=True)
class Learned:
    """What the server made of a round's answers.

    Parameters
    ----------
    scores
        Of the test records, (n, C): logits, probabilities or votes, whose largest is the answer; None: the method
        makes no model.
    models
        To be saved; what they say was averaged.
    release
        Arrays for ``release.npz``: what was released, and labels made of it.
    rows
        Public records that the release is about, whose images the report may show; None: of none.
    metrics
        Beside the accuracy, which the base measures.
    round_metrics
        For the round's own record.
    warnings
        What a reader of the result has to know.
    """

    scores: npt.NDArray[np.floating] | None
    models: Sequence[Learner] = ()
    release: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    rows: npt.NDArray[np.integer] | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)
    round_metrics: Mapping[str, Any] = field(default_factory=dict)
    warnings: Sequence[str] = ()


class OneShotStrategy(BallotStrategy[S], Generic[S]):
    """One round. A method says what is kept of the answers (:meth:`keep`), and what is learned from it (:meth:`learn`).

    What is kept is in the checkpoint before anything is learned, so a run that dies while its student trains goes on
    from there and asks nobody again.
    """

    _kept: Kept | None = None
    _learned: Learned | None = None

    @abstractmethod
    def keep(self, answers: Sequence[Answer]) -> Kept:
        """What is needed of a round's good answers (sorted by client), noise that the server draws included."""

    def keeping(self) -> Fold[Kept]:
        """The same, of answers that are taken as they come; here all wait for the end of the round."""
        return self.everyone().then(self.keep)

    @abstractmethod
    def learn(self, kept: Kept) -> Learned:
        """What the server makes of it."""

    def combine(self, server_round: int, answers: Sequence[Answer]) -> dict[str, Any]:
        return self.fold(server_round).of(answers)

    def fold(self, server_round: int) -> Fold[dict[str, Any]]:
        def go_on(kept: Kept) -> dict[str, Any]:
            self._kept = kept
            return {}

        return self.keeping().then(go_on)

    def state(self) -> Mapping[str, npt.NDArray[Any]] | None:
        return self._kept

    def restore(self, state: Mapping[str, npt.NDArray[Any]]) -> None:
        self._kept = dict(state)

    def outcome(self) -> Mapping[str, Any]:
        if self._kept is None:
            raise RuntimeError("no round is done")
        clock = time.perf_counter()
        try:
            self._learned = learned = self.learn(self._kept)
        except Exception as error:  # a model of somebody else's raises whatever it likes
            words = str(error) if isinstance(error, FedballotError) else f"{type(error).__name__}: {error}"
            models = server_models(self.settings)
            other = ", with --set server_model=ANOTHER if it is the model's fault" if models else ""
            raise RunError(
                f"the server could not learn from what clients answered{''.join(f' ({m})' for m in models)}: {words}. "
                f"Their answers are kept: go on with --resume{other}; nobody is asked or charged again"
            ) from error
        measures = {} if learned.scores is None else measured(self.data, learned.scores)
        metrics = {**measures, **learned.metrics}
        self.round_records[-1]["metrics"] |= learned.round_metrics
        return {
            "metrics": metrics,
            "warnings": list(learned.warnings),
            "distill_s": time.perf_counter() - clock,
        }

    @property
    def learned(self) -> Learned | None:
        """What the server has made of the answers; None before :meth:`outcome`."""
        return self._learned

    def steps(self, label: str, each: int, times: int = 1) -> Callable[[int, int], None]:
        """Show how far the server is with ``times`` models of ``each`` epochs; call the result as a learner does."""
        self.progress.start(label, each * times)
        shown = 0

        def advance(done: int, of: int) -> None:
            nonlocal shown
            now = each * done // of
            self.progress.advance(now - shown)
            shown = 0 if done == of else now

        return advance

    def save(self, folder: RunFolder) -> None:
        """Keep the release with its images, and the server's models."""
        learned = self._learned
        if learned is None:
            return
        release = dict(learned.release)
        if learned.rows is not None and self.data.public_x.ndim >= 3:
            shown = learned.rows[:SHOWN]
            release |= {"images": np.asarray(self.data.public_x[shown]), "image_rows": np.arange(len(shown))}
        write_arrays(folder.release, release)
        for number, model in enumerate(learned.models):
            model.save(folder.path / f"server-model-{number}")


def measured(data: FederatedData, scores: npt.NDArray[np.floating]) -> dict[str, Any]:
    """Accuracy and further measures of scores (n, C) of the test records, or AUC of several labels."""
    if len(scores) != len(data.test_y):
        raise ValueError(f"learn() scored {len(scores)} records: give scores of the {len(data.test_y)} test records")
    if data.multi_label:
        measures = of_labels(data.test_y, scores)
        return {
            "server_auc": measures["auc"],
            "server_auc_per_class": measures["auc_per_class"],
            "server_measures": measures,
        }
    measures = of_scores(data.test_y, scores[:, : len(data.classes)])
    matrix = np.array(measures["confusion"])
    return {
        "server_accuracy": accuracy(matrix),
        "server_accuracy_per_class": measures["recall_per_class"],
        "server_measures": measures,
    }
