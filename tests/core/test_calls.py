"""How models are written: with parameters, on the command line, in TOML, in a sweep."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedballot.core.calls import read_name, write_name
from fedballot.core.errors import SettingsError
from fedballot.core.setting import build
from fedballot.core.words import split_outside
from fedballot.settings.voting import PateSettings
from fedballot.studies.sweep import values_of

BOOSTED = "xgboost(max_depth=4, n_estimators=50)"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a,b", ["a", "b"]),
        ("a(b=1,c=(2,3)),d", ["a(b=1,c=(2,3))", "d"]),
        ("a(b='),'),c", ["a(b='),')", "c"]),
        (r"a(b='\'),'),c", [r"a(b='\'),')", "c"]),
        ("o'hare,b", ["o'hare", "b"]),
        ("a),b", ["a)", "b"]),
        ("", [""]),
    ],
)
def test_separators_in_brackets_and_quotes_separate_nothing(text: str, parts: list[str]) -> None:
    assert split_outside(text, ",") == parts


def test_names_have_parameters() -> None:
    assert read_name("knn") == ("knn", {})
    assert read_name(" mlp ( hidden_layer_sizes=(50, 50), alpha = 1e-3 ) ") == (
        "mlp",
        {"hidden_layer_sizes": (50, 50), "alpha": 1e-3},
    )
    assert read_name("a.b:C(x=None, y=[1, 'b'], z=-1.5)") == ("a.b:C", {"x": None, "y": [1, "b"], "z": -1.5})


@pytest.mark.parametrize(
    "text", ["knn(", "knn(3)", "knn(n=x)", "knn(n=1)(m=2)", "knn(**{'n': 1})", "knn(n=1,n=2)", "(n=1)", "knn(n=f())"]
)
def test_what_is_no_literal_by_name_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match=r"cannot be read; expected NAME or NAME\(parameter=value"):
        read_name(text)


literals = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()


@given(
    st.dictionaries(
        st.sampled_from("abcdefgh"), st.recursive(literals, lambda inner: st.lists(inner) | st.tuples(inner))
    )
)
def test_what_is_written_is_read_and_stays_one_value_in_a_list(parameters: dict[str, object]) -> None:
    text = write_name("package.module:Name", parameters)
    assert read_name(text) == ("package.module:Name", parameters)
    assert split_outside(f"knn,{text},mlp", ",") == ["knn", text, "mlp"]


def test_what_has_no_notation_is_refused() -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        write_name("knn", {"n": float("inf")})


def test_settings_and_sweeps_take_them() -> None:
    settings = build(PateSettings, {"client_models": f"{BOOSTED},knn", "server_model": BOOSTED})
    assert settings.client_models == (BOOSTED, "knn") and settings.server_model == BOOSTED
    assert build(PateSettings, {"client_models": [BOOSTED]}).client_models == (BOOSTED,)
    assert values_of(f"{BOOSTED},knn", is_tuple=False) == [BOOSTED, "knn"]
