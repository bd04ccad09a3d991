"""Privacy targets and noise out of reach: the error names the setting, its value and what it may be."""

from __future__ import annotations

import re
from typing import Any

import pytest

from fedballot.core.errors import SettingsError
from fedballot.methods.registry import settings_types
from fedballot.privacy.mechanism import Composition, Facts
from fedballot.settings.layers import resolve
from fedballot.settings.targets import solved

FACTS = Facts(classes=10, records=400, features=64, negatives=60, weights=1000, all_records=1200, largest_client=400)
SMALL = {"dataset": "digits", "clients": "3", "public_size": "300", "test_size": "300"}
LOGISTIC = {"head": "logistic"}


def composition(method: str, **values: str) -> Composition:
    settings: Any = resolve(method, settings_types(), values={**SMALL, **values})
    made: Composition = settings.scores(FACTS) if method == "fedaux" else settings.composition(FACTS)
    made.guarantees()
    return made


@pytest.mark.parametrize("value", ["1e9", "1e-300"])
@pytest.mark.parametrize(
    ("method", "name", "more"),
    [
        ("fedauxfdp-sum", "epsilon", {}),
        ("fedkd-dp", "epsilon", {}),
        ("fedauxfdp", "epsilon", LOGISTIC),
        ("fedauxfdp", "epsilon", {**LOGISTIC, "mechanism": "paper"}),
        ("fedauxfdp", "score_epsilon", LOGISTIC),
        ("fedaux-f", "score_epsilon", {"mechanism": "paper"}),
        ("fedaux", "score_epsilon", {}),
        ("dp-fedsgd", "epsilon", {"rate": "1.0"}),
        ("pate-fl", "sigma", {}),
        ("private-knn-fl", "sigma", {}),
        ("dp-fedavg", "noise_multiplier", {}),
    ],
)
def test_what_is_out_of_reach_is_named_with_what_is_not(
    method: str, name: str, more: dict[str, str], value: str
) -> None:
    if "epsilon" not in name:  # little noise where a target asks for much
        value = {"1e9": "1e-9", "1e-300": "1e30"}[value]
    with pytest.raises(SettingsError, match=rf"^{name}=\S+ asks for noise .* it must be at (most|least)") as found:
        composition(method, **more, **{name: value})
    said = re.search(rf"^{name}=(\S+) .* it must be at (most|least) (\S+): (lower|raise) {name}$", str(found.value))
    assert said is not None
    told, which, bound, mend = said.groups()
    assert float(told) == float(value)
    assert (which, mend) == (("most", "lower") if float(value) > float(bound) else ("least", "raise"))
    composition(method, **more, **{name: bound})
    beyond = float(bound) * (1.2 if which == "most" else 0.8)  # two digits, rounded inward
    with pytest.raises(SettingsError, match=f"^{name}="):
        composition(method, **more, **{name: str(beyond)})


@pytest.mark.parametrize(
    ("method", "name", "value"),
    [("fedauxfdp", "epsilon", "1e-300"), ("fedmd-ldp", "epsilon", "1e-300"), ("poll", "epsilon", "1e-300")],
)
def test_other_methods_name_their_target_too(method: str, name: str, value: str) -> None:
    more = {"unit": "client"} if method == "poll" else {}
    with pytest.raises(SettingsError, match=f"^{name}={value} asks for noise .* at least .*: raise {name}$"):
        composition(method, **more, **{name: value})


def test_where_nothing_works_another_setting_is_to_blame() -> None:
    def solve(value: float) -> float:
        raise SettingsError("colluders: too many")

    with pytest.raises(SettingsError, match=r"^colluders: too many$"):
        solved("epsilon", 1.0, solve)
    assert solved("epsilon", 2.0, lambda value: value + 1) == 3.0
