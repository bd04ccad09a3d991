"""Audits through real clients: what is right passes, and each fault that is put in is caught."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedballot.clients.poll import PollClient
from fedballot.core.errors import RunError, SettingsError
from fedballot.core.progress import Silent
from fedballot.learners import training
from fedballot.learners.augment import GREY, Augmenter
from fedballot.methods.registry import all_methods
from fedballot.privacy.mechanisms import histogram, logits, subsampled, vectors, votes
from fedballot.privacy.mechanisms.heads import PrivateHead
from fedballot.privacy.mechanisms.nfdp import NfdpSample
from fedballot.privacy.mechanisms.subsampled import SubsampledGaussian
from fedballot.privacy.mechanisms.vectors import NoisyVector
from fedballot.privacy.noise.samplers import discrete_gaussian, representable_variance
from fedballot.studies.audit import Release, audit_method, releases
from fedballot.studies.audits.registry import ClientAudit
from fedballot.studies.audits.worlds import Desk, made_up, spread
from tests.audited import AUDITED
from tests.faults import no_noise, weakened
from tests.studies import noisy_max

Patch = pytest.MonkeyPatch
NAMES = [(name, release) for name, releases in AUDITED.items() for release in releases]
NOISY_MAX = "tests.studies.noisy_max:METHOD"


def audits_of(method: str) -> list[tuple[Release, ClientAudit]]:
    return [(release, audit) for release in releases(method, 1.0) for audit in release.clients]


def findings(
    method: str, release: Release, audit: ClientAudit, folder: Path, seed: int = 1
) -> dict[str, tuple[bool, float]]:
    """Layer -> whether the claim of 1 stands, and what was found."""
    desk = Desk(method, folder, 2000, seed, choice=release.choice)
    return {one.layer: (one.passed, one.found) for one in audit.run(desk, release.part, 1.0)}


@pytest.mark.parametrize(("method", "name"), NAMES, ids=[f"{m}: {r}" for m, r in NAMES])
def test_real_clients_as_they_are_pass(method, name, tmp_path) -> None:
    (pair,) = [pair for pair in audits_of(method) if pair[1].release == name]
    found = findings(method, *pair, tmp_path)
    assert found and all(passed for passed, _ in found.values()), found


def test_every_method_that_protects_all_that_it_releases_is_audited() -> None:
    noisy = {name for name, method in all_methods().items() if "noise_seed" in method.settings.__dataclass_fields__}
    assert noisy - set(AUDITED) == {"fedaux", "fedaux-f", "fedkd"}  # which promise nothing about all that they tell
    assert {name: [audit.release for _, audit in audits_of(name)] for name in AUDITED} == AUDITED


@pytest.mark.parametrize("name", ["fedaux", "fedaux-f", "fedkd", "fedavg", "standalone"])
def test_what_leaves_without_a_guarantee_is_no_matter_for_an_audit(name) -> None:
    with pytest.raises(SettingsError, match="private as a whole"):
        releases(name, 1.0)


# mechanisms that we do not know


def test_a_mechanism_of_somebody_else_is_audited_by_its_worst_case(monkeypatch) -> None:
    (layer,) = audit_method(NOISY_MAX, 1.0, 1000, Silent(), seed=1).layers
    assert (layer.release, layer.part, layer.finding.layer) == ("winners", "mechanism", "two worlds")
    assert layer.finding.passed and layer.finding.claim == pytest.approx(1.0, abs=0.01) and layer.finding.found > 0.1
    draw = noisy_max.discrete_laplace
    monkeypatch.setattr(noisy_max, "discrete_laplace", lambda scale, *rest: draw(scale // 10, *rest))
    report = audit_method(NOISY_MAX, 1.0, 1000, Silent(), seed=1)
    assert not report.passed and report.lower_bound > 2


def test_a_mechanism_without_a_worst_case_is_told_to_name_one() -> None:
    with pytest.raises(SettingsError, match=r"UnknownMechanism \(part 'winners'\): give it a `worst_case`"):
        releases("tests.studies.noisy_max:UNKNOWN", 1.0)


def test_a_variant_with_a_known_mechanism_is_audited_through_its_clients(tmp_path) -> None:
    name = "tests.studies.noisy_max:VARIANT"
    (release, audit), _ = audits_of(name)  # and that of votes with weights
    found = findings(name, release, audit, tmp_path)
    assert audit.release == "votes" and all(passed for passed, _ in found.values()), found


def test_what_lies_within_the_bound_is_no_fault(tmp_path) -> None:
    name = "tests.studies.noisy_max:SOFT"
    ((release, audit),) = audits_of(name)
    found = findings(name, replace(release, choice={"logit_bound": 0.7}), audit, tmp_path)
    assert audit.release == "logits" and all(passed for passed, _ in found.values()), found
    assert found["variance"][1] > 0.05 and found["two worlds"][1] > 0.1


@pytest.mark.parametrize("name", ["fedauxfdp", "fedauxfdp-sum"])
def test_class_sums_on_principal_components_hide_as_much(name, tmp_path) -> None:
    """With coordinates of either sign the counts take half of a record's norm."""
    release, audit = next((one, audit) for one, audit in audits_of(name) if audit.release == "class sums")
    found = findings(name, replace(release, choice={"embedding": "pca"}), audit, tmp_path)
    assert all(passed for passed, _ in found.values()) and {"variance", "two worlds"} <= set(found), found


# faults


def at(module, name: str, value) -> Callable[[Patch], None]:
    return lambda patch: patch.setattr(module, name, value)


def unclipped(rows, bound):
    return np.asarray(rows, dtype=np.float64)


def augmented(patch: Patch) -> None:
    """One public stream for the whole batch, by place."""
    plain = training.sgd_steps

    def sgd_steps(net, inputs, data, *rest, **more):
        change = Augmenter(GREY, *data.shape[2:], data.device) if data.ndim == 4 else (lambda x: x)
        with training.seeded(7, data.device):
            plain(net, lambda rows: change(inputs(rows)), data, *rest, **more)

    patch.setattr(training, "sgd_steps", sgd_steps)


def by_turns(draw: Callable[[int, int, int], np.ndarray]) -> Callable[[Patch], None]:
    """Cohorts by (turn of the step, population, size)."""

    def put(patch: Patch) -> None:
        turn = iter(range(10**6))

        def cohort(self, noise):
            return draw(next(turn), self.population, round(self.rate * self.population))

        patch.setattr(SubsampledGaussian, "cohort", cohort)

    return put


def shuffled(turn: int, population: int, size: int) -> np.ndarray:
    steps = population // size
    order = np.random.default_rng(turn // steps).permutation(population)
    return np.sort(order[turn % steps * size :][:size])


def random_of_fixed_size(turn: int, population: int, size: int) -> np.ndarray:
    return np.sort(np.random.default_rng(turn).permutation(population)[:size])


def one_of_two_without_noise(patch: Patch) -> None:
    turn, noisy = iter(range(10**6)), NoisyVector.noisy
    patch.setattr(
        NoisyVector, "noisy", lambda self, steps, noise: steps if next(turn) % 2 else noisy(self, steps, noise)
    )


def colluders_forgotten(patch: Patch) -> None:
    def noisy(self, steps, noise):
        variance = representable_variance(self.sigma / np.sqrt(self.min_clients) / self.grid)
        return steps + discrete_gaussian(variance, steps.size, noise).reshape(steps.shape)

    patch.setattr(NoisyVector, "noisy", noisy)


def colluders_forgotten_by_shares_and_costs(patch: Patch) -> None:
    """Noise and accounting agree with each other, and neither with the truth."""
    share = property(lambda self: representable_variance(self.sigma / np.sqrt(self.min_clients) / self.grid))
    cost = NoisyVector.cost
    patch.setattr(NoisyVector, "share_variance", share)
    patch.setattr(NoisyVector, "cost", lambda self: replace(cost(self), shares=self.min_clients))


def half_in_heads(patch: Patch) -> None:
    release = PrivateHead.release
    patch.setattr(PrivateHead, "release", lambda self, *rest: release(replace(self, sigma=self.sigma / 2), *rest))


def bare_heads(patch: Patch) -> None:
    patch.setattr(PrivateHead, "release", lambda self, head, noise: head.weights)


def twice_the_sample(patch: Patch) -> None:
    draw = NfdpSample.draw
    patch.setattr(NfdpSample, "draw", lambda self, noise: draw(replace(self, k=2 * self.k), noise))


def the_first(patch: Patch) -> None:
    patch.setattr(NfdpSample, "draw", lambda self, noise: np.arange(self.k))


def five_times(patch: Patch) -> None:
    """A client counts each of its records five times."""
    exact = PollClient.exact
    patch.setattr(PollClient, "exact", lambda self, question: {k: 5 * v for k, v in exact(self, question).items()})


HALF, NONE = weakened(2), no_noise
FAULTS = {
    "pate-fl, half the noise": ("pate-fl", "votes", at(votes, "discrete_gaussian", HALF), {"variance"}),
    "private-knn-fl, no noise": ("private-knn-fl", "votes", at(votes, "discrete_gaussian", NONE), {"two worlds"}),
    "fedkd-dp, no clipping": ("fedkd-dp", "logits", at(logits, "clip_rows", unclipped), {"two worlds"}),
    "fedkd-dp, one client without noise": ("fedkd-dp", "logits", one_of_two_without_noise, {"variance"}),
    "fedkd-dp, half the noise": ("fedkd-dp", "logits", at(vectors, "discrete_gaussian", HALF), {"variance"}),
    "fedkd-dp, colluders forgotten": ("fedkd-dp", "logits", colluders_forgotten, {"variance"}),
    "fedkd-dp, colluders forgotten everywhere": (
        "fedkd-dp",
        "logits",
        colluders_forgotten_by_shares_and_costs,
        {"variance"},
    ),
    "fedauxfdp-sum, colluders forgotten": ("fedauxfdp-sum", "class sums", colluders_forgotten, {"variance"}),
    "fedauxfdp, half the noise": ("fedauxfdp", "class sums", at(vectors, "discrete_gaussian", HALF), {"variance"}),
    "fedauxfdp, half the noise on the class head": ("fedauxfdp", "class head", half_in_heads, {"variance"}),
    "fedauxfdp, score head without noise": ("fedauxfdp", "score head", bare_heads, {"variance", "two worlds"}),
    "fedd-p, half the noise": ("fedd-p", "class head", half_in_heads, {"variance"}),
    "poll, half the noise": ("poll", "record counts", at(histogram, "discrete_gaussian", HALF), {"variance"}),
    "poll, no noise": ("poll", "client shares", at(histogram, "discrete_gaussian", NONE), {"two worlds"}),
    "poll, a record in five places": ("poll", "record counts", five_times, {"two worlds", "variance"}),
    "fedavg-p, half the noise": ("fedavg-p", "class head", half_in_heads, {"variance"}),
    "fedmd-ldp, half the noise": ("fedmd-ldp", "predictions", at(vectors, "discrete_gaussian", HALF), {"variance"}),
    "fedmd-ldp, no noise": ("fedmd-ldp", "predictions", at(vectors, "discrete_gaussian", NONE), {"two worlds"}),
    "fedmd-nfdp, twice the sample": ("fedmd-nfdp", "fixed sample", twice_the_sample, {"sample"}),
    "fedmd-nfdp, the first k": ("fedmd-nfdp", "fixed sample", the_first, {"sample"}),
    "dp-fedavg, no clipping": ("dp-fedavg", "the server's sum", at(subsampled, "clip_rows", unclipped), {"two worlds"}),
    "dp-fedavg, half the noise": (
        "dp-fedavg",
        "the server's sum",
        at(subsampled, "discrete_gaussian", HALF),
        {"variance"},
    ),
    "dp-fedsgd, no clipping": ("dp-fedsgd", "noisy steps", at(subsampled, "clip_rows", unclipped), {"two worlds"}),
    "dp-fedsgd, half the noise": ("dp-fedsgd", "noisy steps", at(subsampled, "discrete_gaussian", HALF), {"variance"}),
    "dp-fedsgd, no noise": ("dp-fedsgd", "noisy steps", at(subsampled, "discrete_gaussian", NONE), {"two worlds"}),
    "dp-fedsgd, fixed slices": (
        "dp-fedsgd",
        "Poisson batches",
        by_turns(lambda turn, n, size: np.arange(n)[turn * size % n :][:size]),
        {"batches"},
    ),
    "dp-fedsgd, one fixed slice": (
        "dp-fedsgd",
        "Poisson batches",
        by_turns(lambda turn, n, size: np.arange(size)),
        {"batches"},
    ),
    "dp-fedsgd, shuffled slices": ("dp-fedsgd", "Poisson batches", by_turns(shuffled), {"batches"}),
    "dp-fedsgd, batches of a fixed size": ("dp-fedsgd", "Poisson batches", by_turns(random_of_fixed_size), {"batches"}),
    "dp-fedsgd, augmented by place": ("dp-fedsgd", "images", augmented, {"reach"}),
    "dp-fedsgd, images without clipping": ("dp-fedsgd", "images", at(subsampled, "clip_rows", unclipped), {"reach"}),
}  # fmt: skip


@pytest.mark.parametrize(("method", "release", "put", "caught"), FAULTS.values(), ids=FAULTS.keys())
def test_a_fault_is_caught(method, release, put, caught, monkeypatch, tmp_path) -> None:
    (pair,) = [pair for pair in audits_of(method) if pair[1].release == release]
    put(monkeypatch)
    found = findings(method, *pair, tmp_path)
    assert all(not found[layer][0] for layer in caught), found


def test_a_client_that_refuses_ends_the_audit(tmp_path) -> None:
    desk, x = Desk("fedd-p", tmp_path, 1000, 1), spread(20, 3, 1)
    data = made_up([(x[:4], [0, 1, 0, 1])], x, 2)
    with pytest.raises(RunError, match="client 0 refused"):
        desk.ask(desk.settings(public_size=20, extractor="none"), data, [x])
