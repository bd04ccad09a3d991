"""The client's side of PATE-FL (Algorithm 1, lines 1-6): train a teacher, and let it vote on the queries.

Paper: "Voting-based approaches for differentially private federated learning".
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedballot.clients.base import EVALUATED
from fedballot.clients.voting import VotingClient, VotingSettings
from fedballot.core.errors import SettingsError
from fedballot.learners.base import Learner
from fedballot.learners.objectives import Abstain, DomainAdversarial, Objective
from fedballot.privacy.mechanisms.votes import limit_votes
from fedballot.settings.parts import setting

FEW_VOTES = 0.1


@dataclass(frozen=True)
class PateSettings(VotingSettings):
    """Settings of PATE-FL."""

    abstain: bool = setting(
        True,
        "teachers also learn a class `unknown` from the public pool, and then do not vote",
        site_limit=(False, True),
    )
    domain_adaptation: float = setting(
        0.0,
        "strength of domain-adversarial training of teachers towards the public pool (`+DA`); needs abstain=false",
        low=0,
        site_limit=(0.0, 10.0),
    )
    vote_fraction: float = setting(
        0.55, "most queries a client may vote on, as a share; the surest ones", above=0, high=1, site_limit=(0.0, 1.0)
    )

    def check(self) -> None:
        super().check()
        if self.domain_adaptation and self.abstain:
            raise SettingsError(
                f"domain_adaptation={self.domain_adaptation:g} hides from teachers which records are public, and "
                "abstain=true has them learn just that: set abstain=false"
            )

    @property
    def max_votes(self) -> int:
        """Most votes of one client, M: its share of the queries, at least one."""
        return max(1, math.floor(self.vote_fraction * self.query_count + 1e-9))

    def turnout_warning(self, cast: float, off: float) -> str | None:
        """See :meth:`VotingSettings.turnout_warning`."""
        if cast + off > FEW_VOTES:
            return None
        return (
            f"clients voted on only about {100 * max(0.0, cast):.0f} % of the queries they were asked: their teachers "
            "are trained too little (raise `epochs` or lower `batch_size`), or set abstain=false"
        )


class PateClient(VotingClient[PateSettings]):
    """One client of Algorithm 1."""

    _teacher: Learner | None = None

    def teacher(self) -> Learner:
        """The trained teacher (line 2), trained once and taken from the client's folder after that."""
        workspace, settings = self.workspace, self.workspace.settings
        if self._teacher is not None:
            return self._teacher
        self._teacher = learner = workspace.own_learner()
        if workspace.folder.model.exists():
            return learner.load(workspace.folder.model)
        private = workspace.private()
        learner.fit(private.x, private.y, objective=self._objective())
        learner.save(workspace.folder.model)
        if settings.evaluate_clients:
            workspace.folder.note({"confusion": workspace.confusion(learner, EVALUATED).tolist()})
        return learner

    def _objective(self) -> Objective | None:
        pool, strength = np.asarray(self.workspace.data.public_x), self.workspace.settings.domain_adaptation
        if self.workspace.settings.abstain:
            return Abstain(pool)
        return DomainAdversarial(pool, strength) if strength else None

    def votes(self, queries: npt.NDArray[np.int64]) -> npt.NDArray[np.int8]:
        """The teacher's votes (Q, C) within the cap, before noise (line 5's first term)."""
        logits = self.teacher().predict_logits(self.workspace.data.public_x[queries])
        return limit_votes(logits, self.workspace.settings.max_votes, n_classes=len(self.workspace.data.classes))
