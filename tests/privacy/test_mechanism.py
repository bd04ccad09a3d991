"""A composition: what it costs, what is uncharged, what it promises, and what it refuses to be."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from fedballot.privacy import accounting
from fedballot.privacy.accounting import Cost, GaussianCost, PureCost
from fedballot.privacy.guarantee import SELF, TRUSTED_AGGREGATOR, Trust, Unit
from fedballot.privacy.mechanism import Composition, Exact, Mechanism, unprotected
from fedballot.privacy.mechanisms.vectors import NoisyVector
from fedballot.privacy.noise.randomness import NoiseSource, os_noise


@dataclass(frozen=True)
class Steps(Mechanism):
    """Costs a client four times what it costs a record, and a person that of each of its records."""

    mu: float = 0.25

    def cost(self, unit: Unit = "record", records_per_person: int = 1) -> Cost:
        return GaussianCost(self.mu * {"record": 1, "client": 4, "person": records_per_person}[unit])

    def release(self, exact: Any, noise: NoiseSource) -> np.ndarray:
        return np.asarray(exact)


@dataclass(frozen=True)
class AtTheServer(Steps):
    """The server adds the noise."""

    central: ClassVar[bool] = True


def composition(*parts: Mechanism, **given: Any) -> Composition:
    named = dict(zip("abc", parts, strict=False))
    return Composition(named, "two noisy counts", "record", "replace-one", 1e-5, **given)


def test_every_part_is_charged_by_the_unit_of_the_ledger() -> None:
    both = composition(Steps(), Steps(0.5))
    assert both.costs() == both.costs("record") == {"a": GaussianCost(0.25), "b": GaussianCost(0.5)}
    assert both.costs("client") == {"a": GaussianCost(1.0), "b": GaussianCost(2.0)}
    assert both.costs("person", 3) == {"a": GaussianCost(0.75), "b": GaussianCost(1.5)}


def test_a_part_that_is_no_mechanism_is_named() -> None:
    vector: Any = NoisyVector(1.0, 20, 3.0)  # it has release() and cost(), but no cost of a unit
    with pytest.raises(TypeError, match=r"part 'a': NoisyVector is no mechanism: extend fedballot\.Mechanism"):
        composition(vector)


def test_a_part_without_a_cost_is_named_and_takes_the_promise_from_all() -> None:
    half = composition(Steps(), Exact())
    assert (half.uncharged, half.private, half.epsilon) == (["b"], False, math.inf)
    assert list(half.costs()) == ["a"]
    assert half.budget == composition(Steps()).budget  # of what can be charged
    (guarantee,) = half.guarantees()
    assert (guarantee.status, guarantee.epsilon, guarantee.accountant) == ("none", math.inf, "none")
    assert composition(Exact()).budget == 0.0


def test_epsilon_is_of_all_parts_in_all_releases_and_the_budget_is_just_enough() -> None:
    both = composition(Steps(0.3), Steps(0.4), releases=4)
    whole = accounting.epsilon([GaussianCost(1.0)], 1e-5)  # 4 (0.3^2 + 0.4^2) = 1
    assert both.epsilon == pytest.approx(whole, rel=1e-9)
    assert both.epsilon <= both.budget <= both.epsilon * (1 + 1e-6)
    assert composition(Steps(0.5)).epsilon < both.epsilon
    loose = replace(both, accountant="rdp")
    assert loose.epsilon > both.epsilon and loose.guarantees()[0].accountant == "rdp"


def test_what_is_promised_is_what_stands_there() -> None:
    given = composition(Steps(), view="output only", trust=TRUSTED_AGGREGATOR, n=7, counted="one release of two counts")
    (guarantee,) = given.guarantees()
    assert (guarantee.mechanism, guarantee.unit, guarantee.adjacency) == ("two noisy counts", "record", "replace-one")
    assert (guarantee.epsilon, guarantee.delta, guarantee.accountant) == (given.epsilon, 1e-5, "exact")
    assert (guarantee.view, guarantee.trust, guarantee.n) == ("output only", TRUSTED_AGGREGATOR, 7)
    assert (guarantee.status, guarantee.composition) == ("proved", "one release of two counts")
    plain = composition(Steps()).guarantees()[0]
    assert (plain.view, plain.trust, plain.n, plain.composition) == ("server's view", SELF, None, "one release")
    trusting = composition(Steps(), trust=TRUSTED_AGGREGATOR).guarantees()[0]
    assert trusting.view == "output only"  # the server sees each answer, with its own share of the noise only
    assert composition(Steps(), seeded=True).guarantees()[0].status == "seeded"
    own = replace(guarantee, epsilon=9.0)
    assert composition(Steps(), stated=lambda: [own, guarantee]).guarantees() == [own, guarantee]


def test_a_ledger_of_other_worlds_is_not_charged() -> None:
    both = composition(Steps(), also=(("client", "zero-out"),))
    assert both.protects("record", "replace-one") and both.protects("client", "zero-out")
    for other in (("record", "add-remove"), ("client", "replace-one"), ("person", "replace-one")):
        assert not both.protects(*other)  # type: ignore[arg-type]


def test_a_method_that_promises_nothing_goes_past_the_ledger() -> None:
    bare = unprotected("weights as they are", unit="client", adjacency="zero-out", n=3)
    assert (bare.recorded, bare.uncharged, bare.costs(), bare.budget) == (False, ["answer"], {}, 0.0)
    (guarantee,) = bare.guarantees()
    assert (guarantee.status, guarantee.epsilon, guarantee.unit, guarantee.n) == ("none", math.inf, "client", 3)
    assert composition(Steps()).recorded and composition(Exact()).recorded
    assert Exact().release([1, 2], os_noise()).tolist() == [1, 2]


@pytest.mark.parametrize("trust", [SELF, Trust("secure aggregation", 3)])
def test_noise_that_the_server_adds_asks_for_trust_in_the_server(trust: Trust) -> None:
    """Else a site that lets nothing out but under masks would send the exact value, and a report would not say so."""
    with pytest.raises(ValueError, match="'b' leaves clients without noise"):
        composition(Steps(), AtTheServer(), trust=trust)
    assert composition(Steps(), AtTheServer(), trust=TRUSTED_AGGREGATOR).private
    assert composition(Steps(), trust=trust).private


def test_pure_noise_has_an_accountant_that_knows_it() -> None:
    @dataclass(frozen=True)
    class Pure(Steps):
        def cost(self, unit: Unit = "record", records_per_person: int = 1) -> Cost:
            return PureCost(0.01, 10)

    assert 0 < composition(Pure(), accountant="rdp").epsilon <= 0.1
