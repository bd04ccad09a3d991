"""Audits through real clients: worlds that differ in one unit, asked as the server asks, answered by `fit`.

Everything that a client does to its data is in them: training or features, clipping, sampling, rounding, noise, the
charge and the packing. One function for each kind of release. The data are made up, and near the worst that there are.
Where a release has many numbers, it shows many units at once, each in a direction of its own: as many runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fedballot.clients.base import Arrays, Workspace
from fedballot.clients.fedkd import EnsembleClient
from fedballot.clients.frozen import split_public
from fedballot.clients.private_heads import head_codec
from fedballot.clients.voting import VotingClient
from fedballot.core.errors import RunError
from fedballot.core.folders import ClientFolder
from fedballot.core.progress import Progress, Silent
from fedballot.core.setting import build
from fedballot.datasets.embedding import fit_embedding, nearness
from fedballot.datasets.examples import Examples
from fedballot.datasets.federation import FederatedData
from fedballot.datasets.fingerprint import fingerprint
from fedballot.methods.registry import METHODS
from fedballot.privacy import accounting
from fedballot.privacy.accounting import gaussian
from fedballot.privacy.audit import statistics as audit
from fedballot.privacy.audit.mechanisms import ALARM, Finding, by_p_value, first_layers, vector_variance
from fedballot.privacy.mechanisms.class_sums import SENSITIVITY, ClassSums
from fedballot.privacy.mechanisms.heads import PrivateHead, fit_head, prepare
from fedballot.privacy.mechanisms.laplace import NoisyValues
from fedballot.privacy.mechanisms.logits import NoisyLogits
from fedballot.privacy.mechanisms.nfdp import NfdpSample
from fedballot.privacy.mechanisms.vectors import NoisyVector
from fedballot.privacy.mechanisms.votes import NoisyVotes
from fedballot.settings.fedaux import FedauxfdpSumSettings, shared_mechanism
from fedballot.settings.fedkd import mechanism as logits_mechanism
from fedballot.settings.heads import class_mechanism, score_mechanism
from fedballot.settings.voting import PateSettings
from fedballot.settings.voting import mechanism as votes_mechanism
from fedballot.settings.weights import client_mechanism, record_mechanism
from fedballot.strategies.base import Answer
from fedballot.strategies.weights_private import DpFedavgStrategy
from fedballot.wire.codec import Choices, Integers

DELTA = 1e-5
CLIENTS, COLLUDERS = 3, 1  # with more of them, integer shares make a release so private that no audit can see anything
HONEST = CLIENTS - COLLUDERS
QUERIES = 1200
CANARIES = 200
BATCHES, SAMPLES = 20, 60  # answers from which sampling is judged
SUMS = 2000  # most noisy sums of the server, of which each is one run only
FAR = 1000.0  # how far beyond a bound that must cut it

Floats = npt.NDArray[np.float64]


@dataclass
class Desk:
    """Asks fresh clients of one method.

    Parameters
    ----------
    method : str
    root : Path
        Where they keep what they keep; each has a folder of its own, so that each may spend its whole budget.
    runs : int
        Releases wanted in each of two worlds, about.
    seed : int, optional
        Of the clients' noise, for tests.
    progress : Progress
    """

    method: str
    root: Path
    runs: int
    seed: int | None = None
    progress: Progress = field(default_factory=Silent)
    _asked: int = 0

    def settings(self, **chosen: Any) -> Any:
        """Settings of the method's own kind, with what all audits share."""
        common = {"delta": DELTA, "clients": 1, "min_clients": 0, "evaluate_clients": False, "device": "cpu"}
        kind = METHODS[self.method].settings
        known = kind.__dataclass_fields__
        return build(kind, {key: value for key, value in {**common, **chosen}.items() if key in known})

    def times(self, each: int) -> int:
        """How many answers make up the runs wanted, where one has ``each`` of them."""
        return max(1, -(-self.runs // each))

    def rounds(self, label: str, count: int) -> Iterator[int]:
        """0 to count - 1, with progress."""
        self.progress.start(f"audit: real clients, {label}", count)
        for number in range(count):
            yield number
            self.progress.advance()
        self.progress.stop()

    def client(self, settings: Any, data: FederatedData, client_id: int = 0) -> Any:
        """A client that has answered nothing yet."""
        self._asked += 1
        if self.seed is not None:
            settings = replace(settings, noise_seed=self.seed + self._asked)
        folder = ClientFolder(self.root / f"{self._asked}")
        return METHODS[self.method].client(Workspace(client_id, settings, data, folder, "cpu"))

    def told(self, client: Any, arrays: Arrays) -> Arrays:
        """What it answers in the first round.

        Raises
        ------
        RunError
            If it refuses.
        """
        data: FederatedData = client.workspace.data
        config = {"request": f"audit {self._asked}/1", "round": 1, "fingerprint": data.public_fingerprint}
        out, _, words = client.fit(arrays, config)
        if words["refused"]:
            raise RunError(
                f"audit: client {client.workspace.client_id} refused ({words['refused']!s}): {words['detail']!s}"
            )
        return list(out)

    def ask(self, settings: Any, data: FederatedData, arrays: Arrays, client_id: int = 0) -> Arrays:
        """The answer of a fresh client."""
        return self.told(self.client(settings, data, client_id), arrays)


Audit = Callable[[Desk, float], list[Finding]]


def made_up(
    parts: Sequence[tuple[npt.NDArray[Any], Sequence[int] | npt.NDArray[np.integer]]],
    public: npt.NDArray[Any],
    classes: int,
) -> FederatedData:
    """A federation whose clients hold these records (x, y)."""
    x = np.concatenate([x for x, _ in parts])
    y = np.concatenate([np.asarray(y, dtype=np.int64) for _, y in parts])
    ends = np.cumsum([len(x) for x, _ in parts])
    rows = np.split(np.arange(len(x)), ends[:-1])
    blank = np.zeros(len(public), dtype=np.int64)
    names = tuple(str(label) for label in range(classes))
    return FederatedData(
        names, Examples(x, y), tuple(rows), public, blank, public[:1], blank[:1], fingerprint(public), ()
    )


def spread(rows: int, width: int, stream: int) -> npt.NDArray[np.float32]:
    """The same points at random for everybody, float32 (rows, width)."""
    return np.random.default_rng(stream).normal(size=(rows, width)).astype(np.float32)


def three_classes() -> FederatedData:
    """Three clients and a public pool of three classes that are easily told apart."""
    x = spread(90, 4, 1) * 3
    y = x[:, :3].argmax(axis=1)
    parts = [(x[rows], y[rows]) for rows in np.split(np.arange(90), CLIENTS)]
    return made_up(parts, spread(QUERIES, 4, 2) * 3, 3)


def least_variance(declared: float, reach: float, claim: float) -> float:
    """The declared variance, or what the claim needs of any Gaussian noise, whatever an accountant says."""
    return max(declared, gaussian.sigma(reach, claim, DELTA) ** 2)


def _layers(
    residuals: Sequence[Floats], declared: float, inside: Sequence[Floats], outside: Sequence[Floats], claim: float
) -> list[Finding]:
    return first_layers(
        np.concatenate(residuals), declared, np.concatenate(inside), np.concatenate(outside), claim, DELTA
    )


# noisy votes


def votes(desk: Desk, claim: float) -> list[Finding]:
    """One client's vote on a query in the tally, or none; a colluder's share is known."""
    cast_one = issubclass(METHODS[desk.method].settings, PateSettings)
    shared = {
        "clients": CLIENTS,
        "min_clients": CLIENTS,
        "colluders": COLLUDERS,
        "public_size": QUERIES,
        "client_models": "logistic-regression",
        "unit": "client",
    }
    # with one neighbour the votes are one-hot too
    shared |= {"abstain": False, "vote_fraction": 1.0} if cast_one else {"k": 1}
    one = NoisyVotes.solve(
        claim, DELTA, queries=1, max_votes=1, contributors=CLIENTS, colluders=COLLUDERS, k=None if cast_one else 1
    )
    settings = desk.settings(**shared, sigma=one.sigma)
    noisy, data, queries = votes_mechanism(settings), three_classes(), np.arange(QUERIES)
    assert noisy is not None
    residuals, inside, outside = [], [], []
    for _ in desk.rounds("votes", desk.times(QUERIES)):
        own, noise = [], np.zeros((QUERIES, len(data.classes)))
        for client_id in range(HONEST):
            client: VotingClient[Any] = desk.client(settings, data, client_id)
            told = Integers(noise.shape).read(desk.told(client, [queries.astype(np.int32)]))
            own.append(client.votes(queries))  # which are no secret here
            noise += told - own[-1]
        column = own[0].argmax(axis=1)
        residuals.append(noise)
        inside.append((noise + own[0])[queries, column])
        outside.append(noise[queries, (column + 1) % noise.shape[1]])
    declared = least_variance((noisy.ballot * noisy.sigma) ** 2, noisy.ballot, claim)
    return _layers(residuals, declared, inside, outside, claim)


# clipped logits


def logits(desk: Desk, claim: float) -> list[Finding]:
    """One client's logits on a query, far beyond the bound, in the sum of all, or none; a colluder's share is known."""
    bound, classes = 0.02, 3
    one = NoisyLogits.solve(
        claim, DELTA, queries=1, classes=classes, bound=bound, contributors=CLIENTS, colluders=COLLUDERS
    )
    whole = replace(one, queries=QUERIES).mechanism.epsilon(DELTA)
    settings = desk.settings(
        clients=CLIENTS,
        min_clients=CLIENTS,
        colluders=COLLUDERS,
        public_size=QUERIES,
        queries=QUERIES,
        client_models="logistic-regression",
        logit_bound=bound,
        epsilon=whole,
    )
    data = three_classes()
    noisy, rows = logits_mechanism(settings, classes), np.arange(QUERIES)
    residuals, inside, outside = [], [], []
    for _ in desk.rounds("logits", desk.times(QUERIES)):
        along, noise = [], np.zeros((QUERIES, classes))
        for client_id in range(HONEST):
            client: EnsembleClient[Any] = desk.client(settings, data, client_id)
            steps = Integers(noise.shape).read(desk.told(client, [rows.astype(np.int32)]))
            raw = client.logits(rows)  # none of them within the bound
            along.append(raw / np.linalg.norm(raw, axis=1, keepdims=True))
            noise += steps * noisy.mechanism.grid - bound * along[-1]
        across = np.roll(along[0], 1, axis=1) - np.roll(along[0], -1, axis=1)  # at a right angle, as each row sums to 0
        across /= np.linalg.norm(across, axis=1, keepdims=True)
        residuals.append(noise)
        inside.append((noise * along[0]).sum(axis=1) + bound)
        outside.append((noise * across).sum(axis=1))
    declared = least_variance(noisy.sigma**2, bound, claim)
    return _layers(residuals, declared, inside, outside, claim)


# class sums


def class_sums(desk: Desk, claim: float) -> list[Finding]:
    """Each record's label is one of two of its own: 2 j or 2 j + 1 for record j."""
    summed = issubclass(METHODS[desk.method].settings, FedauxfdpSumSettings)
    clients, width, landmarks, public = (CLIENTS if summed else 1), 4, 3, 60
    classes = 2 * (CANARIES + clients)  # the others' records have classes of their own
    settings = desk.settings(
        clients=clients,
        min_clients=clients,
        colluders=COLLUDERS,
        public_size=public,
        extractor="none",
        dimension=landmarks,
        records=CANARIES,
        epsilon=claim,
    )
    pool, x = spread(public, width, 1), spread(CANARIES, width, 2)
    points = spread(landmarks, width, 3)
    z = nearness(fit_embedding(pool, width).transform(x), points).astype(np.float64)
    noisy = (
        shared_mechanism(settings, classes)
        if summed
        else ClassSums.solve(claim, DELTA, classes=classes, features=landmarks, signed=False)
    )
    own = np.hstack([np.ones((CANARIES, 1)), z]) * noisy.scale  # what a record adds to its class
    own /= np.linalg.norm(own, axis=1, keepdims=True)
    vector, shape = noisy.mechanism, (classes, 1 + landmarks)

    def scores(side: int) -> Floats:
        """One release: how far each record's pair of classes leans to the second of them; 1 apart between the sides."""
        total = np.zeros(shape)
        for client_id in range(vector.contributors - vector.colluders):
            others = [(x[:1], [2 * (CANARIES + client_id)]) for client_id in range(1, clients)]
            data = made_up([(x, 2 * np.arange(CANARIES) + side), *others], pool, classes)
            told = desk.ask(settings, data, [points], client_id)
            if summed:
                total += noisy.read(Integers(shape).read(told).astype(np.int64)) * noisy.scale
            else:
                total += head_codec(settings, [shape]).read(told)[0] * noisy.scale
        pairs = total[: 2 * CANARIES].reshape(CANARIES, 2, -1)
        return np.asarray(((pairs[:, 1] - pairs[:, 0]) * own).sum(axis=1) / math.sqrt(2))

    inside, outside = [], []
    for _ in desk.rounds("class sums", desk.times(CANARIES)):
        inside.append(scores(1))
        outside.append(scores(0))
    one, other = np.concatenate(inside), np.concatenate(outside)
    residuals = np.concatenate([one - math.sqrt(0.5), other + math.sqrt(0.5)])
    declared = least_variance(vector_variance(vector), SENSITIVITY, claim)
    return first_layers(residuals, declared, one, other, claim, DELTA)


# linear heads


def class_head(desk: Desk, claim: float) -> list[Finding]:
    """Each canary of label 1 points one way or the other, far beyond the bound; the rest, of label 0, nowhere."""
    settings = _heads(desk, claim, public=20)
    canaries, rest = 100, 900
    noisy = class_mechanism(settings, canaries + rest, 1 + canaries, 2)
    assert noisy is not None
    labels = np.repeat([1, 0], [canaries, rest])
    blank = np.zeros((rest, canaries), dtype=np.float32)

    def expected(x: npt.NDArray[np.float32], pool: npt.NDArray[np.float32]) -> Floats:
        return fit_head(prepare(x, 1.0), labels, 2, settings.lam).weights

    return _two_sided_heads(desk, settings, "class head", noisy, 0, labels, blank, expected, claim)


def score_head(desk: Desk, claim: float) -> list[Finding]:
    """As `class_head`; all records are of label 1, and the public negatives are many."""
    settings = _heads(desk, claim, public=1000, pretrain_share=0.9)
    canaries, negatives = 100, 900
    noisy = score_mechanism(settings, canaries + negatives, 1 + canaries)
    assert noisy is not None
    labels = np.ones(canaries, dtype=np.int64)
    blank = np.zeros((0, canaries), dtype=np.float32)

    def expected(x: npt.NDArray[np.float32], pool: npt.NDArray[np.float32]) -> Floats:
        _, auxiliary = split_public(len(pool), settings.pretrain_share, settings.seed)
        both = np.vstack([prepare(x, 1.0), prepare(pool[auxiliary], 1.0)])
        return fit_head(both, np.repeat([1, 0], [canaries, negatives]), 2, 2 * settings.lam).weights

    return _two_sided_heads(desk, settings, "score head", noisy, 1, labels, blank, expected, claim)


def _heads(desk: Desk, claim: float, *, public: int, pretrain_share: float = 0.2) -> Any:
    return desk.settings(
        public_size=public,
        pretrain_share=pretrain_share,
        extractor="none",
        head="logistic",
        epsilon=claim,
        score_epsilon=claim,
    )


def _two_sided_heads(
    desk: Desk,
    settings: Any,
    label: str,
    noisy: PrivateHead,
    which: int,
    labels: npt.NDArray[np.int64],
    blank: npt.NDArray[np.float32],
    expected: Callable[[npt.NDArray[np.float32], npt.NDArray[np.float32]], Floats],
    claim: float,
) -> list[Finding]:
    """Scores along each canary's feature of the head number ``which`` that is told."""
    canaries = noisy.features - 1
    pool = spread(settings.public_size, canaries, 1)
    pool /= np.linalg.norm(pool, axis=1, keepdims=True)  # the public bound is 1
    shapes = [(2, noisy.features), *([(noisy.features,)] if settings.with_scores else [])]

    def world(sign: int) -> tuple[FederatedData, Floats]:
        x = np.vstack([sign * FAR * np.eye(canaries, dtype=np.float32), blank])
        w = expected(x, pool)
        return made_up([(x, labels)], pool, 2), (w[1] - w[0])[1:] / math.sqrt(2)

    def scores(data: FederatedData) -> Floats:
        told = head_codec(settings, shapes).read(desk.ask(settings, data, []))[which].astype(np.float64)
        head = told[1] - told[0] if which == 0 else told
        return np.asarray(head[1:] / math.sqrt(2))  # the noise of one weight

    (one, lean), (other, opposite) = world(1), world(-1)
    inside, outside = [], []
    for _ in desk.rounds(label, desk.times(canaries)):
        inside.append(scores(one))
        outside.append(scores(other))
    residuals = np.concatenate([*(seen - lean for seen in inside), *(seen - opposite for seen in outside)])
    declared = least_variance(vector_variance(noisy.mechanism), noisy.mechanism.sensitivity, claim)
    return first_layers(residuals, declared, np.concatenate(inside), np.concatenate(outside), claim, DELTA)


# predictions of FedMD


def predictions(desk: Desk, claim: float) -> list[Finding]:
    """A client whose model puts each public record into one corner, or into the other."""
    one = NoisyVector.solve(claim, DELTA, sensitivity=math.sqrt(2), coordinates=2)
    whole = replace(one, sensitivity=one.sensitivity * math.sqrt(QUERIES), coordinates=2 * QUERIES)
    both = 2  # releases of a run of one round
    settings = desk.settings(
        public_size=QUERIES,
        queries=QUERIES,
        rounds=1,
        share="argmax",
        pretrain_epochs=0,
        client_models="logistic-regression",
        epsilon=accounting.epsilon([whole.cost()] * both, DELTA),
    )
    noisy = settings.noisy_predictions(2).noisy
    assert not isinstance(noisy, NoisyValues)
    pool = np.abs(spread(QUERIES, 2, 1)) + 1
    x = np.vstack([pool[:20], -pool[:20]])

    def scores(label: int) -> tuple[Floats, Floats]:
        data = made_up([(x, np.repeat([label, 1 - label], 20))], pool, 2)
        seen = desk.ask(settings, data, [np.arange(QUERIES, dtype=np.int32)])[0].astype(np.float64)
        return (seen[:, 1] - seen[:, 0]) / math.sqrt(2), seen - np.eye(2)[label]

    inside: list[Floats] = []
    outside: list[Floats] = []
    residuals: list[Floats] = []
    for _ in desk.rounds("predictions", desk.times(QUERIES)):
        for label, into in ((1, inside), (0, outside)):
            seen, noise = scores(label)
            into.append(seen)
            residuals.append(noise)
    declared = least_variance(noisy.sigma**2, math.sqrt(2), claim)
    return _layers(residuals, declared, inside, outside, claim)


# sampling without noise


def fixed_sample(desk: Desk, claim: float) -> list[Finding]:
    """How often the answer betrays the one record of another label, far from all: at three places among the records.

    What is claimed is a delta; epsilon is 0, whatever ``claim``.
    """
    n, k = 20, 5
    settings = desk.settings(
        public_size=1, queries=1, rounds=1, pretrain_epochs=0, k=k, min_size=n, share="argmax",
        client_models="logistic-regression",
    )  # fmt: skip
    sample, pool = NfdpSample(n, k, settings.replacement), np.full((1, 2), FAR, dtype=np.float32)

    def betrayed(place: int) -> bool:
        x = -1 - np.abs(spread(n, 2, 1))
        y = np.zeros(n, dtype=np.int64)
        x[place], y[place] = pool[0], 1
        told = desk.ask(settings, made_up([(x, y)], pool, 2), [np.zeros(1, dtype=np.int32)])
        return bool(Choices((1, 2)).read(told)[0, 1])

    times = desk.rounds("samples", 3 * SAMPLES)
    seen = np.array([betrayed((0, n // 2, n - 1)[number % 3]) for number in times]).reshape(SAMPLES, 3).T
    # a fault in k moves all places, a fault in the drawing some: each half of the error; the claim is tight
    found = max(audit.inclusion_bound(one, 1 - ALARM / 2) for one in (seen, seen.reshape(1, -1)))
    return [Finding("sample", sample.delta, found, found <= sample.delta)]


# noisy weights


def client_sums(desk: Desk, claim: float) -> list[Finding]:
    """The server's average of one real client's difference, far longer than the clip, or of nobody's."""
    settings = desk.settings(
        rounds=1, epochs=1, lr=FAR, clip=0.1, epsilon=claim, client_models="linear-torch", public_size=10, batch_size=8
    )
    data = made_up([(spread(8, 3, 1), [0, 1] * 4)], spread(10, 3, 2), 2)
    strategy = DpFedavgStrategy(
        settings if desk.seed is None else replace(settings, noise_seed=desk.seed),
        data=data,
        device="cpu",
        nodes=1,
        fingerprint=data.public_fingerprint,
        request_id="audit",
        progress=Silent(),
    )
    mechanism = client_mechanism(settings, strategy.weights.size)
    told = desk.ask(settings, data, strategy.request(1))
    answer = Answer(0, strategy.read(told), 0.0, 0.0)
    along = answer.ballot / np.linalg.norm(answer.ballot.astype(np.float64))

    def noisy_sum(answers: list[Answer]) -> Floats:
        strategy.round_records.append({})  # another round: other noise
        return np.asarray(strategy.average(answers) * settings.divisor)

    inside, outside, residuals = [], [], []
    for _ in desk.rounds("the server's sum", min(desk.runs, SUMS)):
        total = noisy_sum([])
        outside.append(total @ along)
        residuals.append(total)
        inside.append(noisy_sum([answer]) @ along)
    declared = least_variance((mechanism.multiplier * mechanism.clip) ** 2, mechanism.clip, claim)
    return first_layers(np.concatenate(residuals), declared, np.array(inside), np.array(outside), claim, DELTA)


@dataclass(frozen=True, eq=False)
class _Canaries:
    """Records whose gradients at weights 0 are at right angles and far longer than the clip.

    Of two classes at probability 1/2 each, on inputs e_i, which `linear-torch` normalises: with the bias, their inner
    products are next to 0.
    """

    count: int

    def records(self, present: npt.NDArray[np.integer]) -> npt.NDArray[np.float32]:
        return np.asarray(FAR * np.eye(self.count, dtype=np.float32)[present])

    @property
    def directions(self) -> Floats:
        """Minus the gradients of label 1, of norm 1, (count, 2 count + 2)."""
        x = np.eye(self.count)
        z = (x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True)
        wide = np.hstack([-z, z, np.tile([-1.0, 1.0], (self.count, 1))])
        return np.asarray(wide / np.linalg.norm(wide, axis=1, keepdims=True))


def _descent(desk: Desk, settings: Any, data: FederatedData, weights: int) -> Floats:
    """Minus the sum of all noisy sums of a round, from weights 0."""
    told = desk.ask(settings, data, [np.zeros(weights, dtype=np.float32)])[0]
    return np.asarray(told.astype(np.float64) * settings.batch_size / settings.lr)


def record_sums(desk: Desk, claim: float) -> list[Finding]:
    """Whole batches, one step: every second canary is there, its gradient far longer than the clip."""
    settings = desk.settings(
        rounds=1, epochs=1, rate=1.0, lr=1.0, batch_size=1, clip=0.5, epsilon=claim, client_models="linear-torch",
        public_size=10,
    )  # fmt: skip
    canaries = _Canaries(CANARIES)
    present, pool = np.arange(0, CANARIES, 2), canaries.records(np.arange(10))
    data = made_up([(canaries.records(present), np.ones(len(present), dtype=np.int64))], pool, 2)
    weights = 2 * CANARIES + 2
    mechanism, directions = record_mechanism(settings, weights), canaries.directions
    expected = directions @ (mechanism.clip * directions[present].sum(axis=0))
    seen = [
        directions @ _descent(desk, settings, data, weights)
        for _ in desk.rounds("noisy steps", desk.times(CANARIES // 2))
    ]
    declared = least_variance((mechanism.multiplier * mechanism.clip) ** 2, mechanism.clip, claim)
    inside, outside = np.concatenate([one[::2] for one in seen]), np.concatenate([one[1::2] for one in seen])
    residuals = np.concatenate([one - expected for one in seen])
    return first_layers(residuals, declared, inside, outside, claim, DELTA)


def record_batches(desk: Desk, claim: float) -> list[Finding]:
    """At next to no noise: which records were in how many batches."""
    rate, steps = 0.25, 4
    settings = desk.settings(
        rounds=1, epochs=1, rate=rate, lr=1e-6, batch_size=1, clip=0.5, noise_multiplier=0.02, epsilon=claim,
        client_models="linear-torch", public_size=10,
    )  # fmt: skip
    canaries = _Canaries(CANARIES)
    everybody = canaries.records(np.arange(CANARIES))
    data = made_up([(everybody, np.ones(CANARIES, dtype=np.int64))], everybody[:10], 2)
    seen = [
        np.rint(canaries.directions @ _descent(desk, settings, data, 2 * CANARIES + 2) / settings.clip)
        for _ in desk.rounds("batches", BATCHES)
    ]
    drawn = np.array(seen, dtype=np.int64)
    return [by_p_value("batches", rate, audit.poisson_p_value(drawn, steps, rate))]


def record_reach(desk: Desk, claim: float) -> list[Finding]:
    """At little noise: how far the sum over a batch of images moves without the first of them."""
    n = 60
    settings = desk.settings(
        rounds=1, epochs=1, rate=1.0, lr=1.0, batch_size=1, clip=1.0, noise_multiplier=0.05, epsilon=claim,
        client_models="linear-torch", public_size=10,
    )  # fmt: skip
    generator = np.random.default_rng(1)
    x = generator.integers(0, 256, (n, 8, 8)).astype(np.uint8)
    y = generator.integers(0, 3, n)
    weights = 3 * 64 + 3
    mechanism = record_mechanism(settings, weights)
    sums = [
        _descent(desk, settings, made_up([(x[first:], y[first:])], x[:10], 3), weights)
        for first in desk.rounds("a record's reach", 2)
    ]
    variance = 2 * (mechanism.multiplier * mechanism.clip) ** 2
    return [by_p_value("reach", mechanism.clip, audit.reach_p_value(sums[0] - sums[1], mechanism.clip, variance))]
