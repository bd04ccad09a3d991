"""PATE with report-noisy-max: clients vote on a few public records, and the server tells the winners after noise.

Sources: Papernot et al. 2017, "Semi-supervised knowledge transfer for deep learning from private training data" (PATE),
section 2.1 (LNMax); Dwork and Roth 2014, "The algorithmic foundations of differential privacy", Claim 3.9; Ding et al.
2021, "The permute-and-flip mechanism is identical to report-noisy-max with exponential noise".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from fedballot import Composition, Facts, Guarantee, Mechanism, Method
from fedballot.clients.base import Arrays, query_rows
from fedballot.clients.summed import SummedClient
from fedballot.core.setting import again, setting
from fedballot.distillation.aggregation import votes_of
from fedballot.privacy.accounting import PureCost
from fedballot.privacy.guarantee import TRUSTED_AGGREGATOR, Adjacency, Unit
from fedballot.privacy.noise.randomness import NoiseSource
from fedballot.privacy.noise.samplers import discrete_laplace
from fedballot.settings.parts import LocalTraining, NoiseSeed, PrivacyTarget, Queries, ServerTraining
from fedballot.settings.summed import SummedSettings
from fedballot.strategies.one_shot import Learned
from fedballot.strategies.summed import SummedStrategy
from fedballot.wire.messages import Config
from fedballot.wire.secagg import Form

Ints = NDArray[np.integer]
STEPS = 1000  # grid steps in a vote: integer noise whose scale is nearly continuous
LEDGER_DELTA = 1e-10  # a ledger adds up at some delta; the release itself has none


@dataclass(frozen=True)
class NoisyMax(Mechanism):
    """The winner of each query after noise on its vote counts, drawn once by the server.

    Without a client all counts of a query fall, by one vote at most: either noise then costs 1/scale. A record may move
    a vote from one class to another, and costs 2/scale.
    """

    queries: int  # public records that each client votes on
    scale: float  # of the noise on each count, in votes
    noise: Literal["laplace", "exponential"]
    central: ClassVar[bool] = True

    def cost(self, unit: Unit, records_per_person: int = 1) -> PureCost:
        return PureCost((1 if unit == "client" else 2) * self.queries * STEPS / math.ceil(self.scale * STEPS))

    def release(self, exact: Ints, noise: NoiseSource) -> NDArray[np.int64]:
        """Winners (Q,) of exact counts (Q, C); ties go to the smaller class."""
        scale = math.ceil(self.scale * STEPS)
        drawn = discrete_laplace(scale, exact.size, noise)
        while self.noise == "exponential" and (negative := drawn < 0).any():  # what is left is exponential
            drawn[negative] = discrete_laplace(scale, int(negative.sum()), noise)
        return np.asarray((exact.astype(np.int64) * STEPS + drawn.reshape(exact.shape)).argmax(axis=1))


@dataclass(frozen=True)
class NoisyMaxSettings(NoiseSeed, Queries, LocalTraining, ServerTraining, SummedSettings):
    """Settings of PATE with report-noisy-max; gamma in the paper is epsilon / queries."""

    queries: int = again(Queries, "queries", 100, help="public records that clients vote on; 0: the whole pool")
    epsilon: float = again(PrivacyTarget, "epsilon", 20.0, help="pure epsilon of all votes of a client")
    noise: Literal["laplace", "exponential"] = setting(
        "exponential", "noise on each count", site_limit=("laplace", "exponential"), headline=True
    )

    def composition(self, facts: Facts) -> Composition:
        noisy = NoisyMax(self.query_count, self.query_count / self.epsilon, self.noise)
        words, seeded = f"winners of vote counts after {self.noise} noise", self.noise_seed is not None

        def guarantee(unit: Unit, adjacency: Adjacency, n: int | None) -> Guarantee:
            return Guarantee(
                mechanism=words,
                unit=unit,
                adjacency=adjacency,
                epsilon=noisy.cost(unit).epsilon,
                delta=0.0,
                view="output only",
                trust=TRUSTED_AGGREGATOR,
                status="seeded" if seeded else "proved",
                accountant="pure epsilon, added up",
                n=n,
                composition=f"one release of {self.query_count} winners",
            )

        return Composition(
            {"votes": noisy},
            words,
            "client",
            "zero-out",
            LEDGER_DELTA,
            accountant="rdp",
            also=[("record", "replace-one")],
            trust=TRUSTED_AGGREGATOR,
            seeded=seeded,
            stated=lambda: [
                guarantee("client", "zero-out", self.clients),
                guarantee("record", "replace-one", facts.all_records),
            ],
        )

    def form(self, classes: int) -> Form:
        """Of a ballot: one-hot votes (Q, C)."""
        return Form((self.query_count, classes), 1)


class NoisyMaxClient(SummedClient[NoisyMaxSettings]):
    """Trains a model on its own records and votes with it; the server adds the exact votes up, or masks hide them."""

    def form(self) -> Form:
        return self.settings.form(len(self.data.classes))

    def question(self, arrays: Arrays, config: Config) -> NDArray[np.int64]:
        return query_rows(arrays, self.settings.query_count, self.settings.public_size)

    def exact(self, question: NDArray[np.int64]) -> dict[str, Ints]:
        own, classes = self.workspace.private(), len(self.data.classes)
        logits = self.workspace.own_learner().fit(own.x, own.y).predict_logits(self.data.public_x[question])
        return {"votes": votes_of(logits.argmax(axis=1), classes)}

    def blank(self, question: NDArray[np.int64]) -> dict[str, Ints]:
        return {"votes": np.zeros(self.form().shape, dtype=np.int8)}


class NoisyMaxStrategy(SummedStrategy[NoisyMaxSettings]):
    """Asks about the first records of the pool, and trains a student on the winners; the counts are forgotten."""

    @property
    def form(self) -> Form:
        return self.settings.form(len(self.data.classes))

    def request(self, server_round: int) -> Arrays:
        return [np.arange(self.settings.query_count, dtype=np.int32)]

    def learn_from_sum(self, total: NDArray[np.int64], arrived: int) -> Learned:
        rows = np.arange(len(total))
        asked, truth = self.data.public_x[rows], np.asarray(self.data.public_y[rows])
        student = self.new_student(asked.shape[1:]).fit(asked, total)
        return Learned(
            scores=student.predict_logits(self.data.test_x),
            models=[student],
            release={"query_indices": rows, "labels": total, "true_labels": truth},
            rows=rows,
            metrics={"label_accuracy": float(np.mean(total == truth))},
        )


METHOD = Method(
    name="pate-noisy-max",
    summary="clients vote on public data; the server tells the winners after noise, and learns from them",
    sends="one exact vote matrix per client",
    protects="each client with all its data (and each record, at twice epsilon)",
    from_whom="everybody but the server, which must be trusted",
    source="Semi-supervised knowledge transfer for deep learning from private training data (PATE), LNMax",
    settings=NoisyMaxSettings,
    client=NoisyMaxClient,
    strategy=NoisyMaxStrategy,
)
