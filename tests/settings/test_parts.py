"""Settings: layers, types, ranges, combinations, and errors that name the key and the fix."""

import contextlib
import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedballot.core.errors import SettingsError
from fedballot.core.setting import Settings, again, build, declaration, setting
from fedballot.methods.registry import all_methods, settings_types
from fedballot.settings.layers import load_file, load_preset, parse_assignments, preset_names, resolve
from fedballot.settings.parts import CommonSettings
from fedballot.settings.voting import PateSettings


def test_later_layers_win():
    found = build(PateSettings, {"clients": 7, "epochs": 3}, {"clients": "9"})
    assert (found.clients, found.epochs, found.batch_size) == (9, 3, PateSettings().batch_size)


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("clients", "12", 12),
        ("clients", "1e3", 1000),
        ("epsilon", "inf", math.inf),
        ("lr", "1e-3", 1e-3),
        ("abstain", "false", False),
        ("noise_seed", "none", None),
        ("noise_seed", "4", 4),
        ("client_models", "cnn-small, logistic-regression", ("cnn-small", "logistic-regression")),
        ("client-models", ["mlp"], ("mlp",)),
    ],
)
def test_texts_become_the_declared_type(key, text, value):
    assert getattr(build(PateSettings, {key: text}), key.replace("-", "_")) == value


@pytest.mark.parametrize(
    ("layer", "words"),
    [
        ({"clinets": 3}, ["'clinets'", "'clients'"]),
        ({"clients": "many"}, ["clients='many'", "whole number"]),
        ({"clients": 2.5}, ["clients=2.5", "whole number"]),
        ({"clients": True}, ["clients=True", "whole number"]),
        ({"clients": 0}, ["clients=0", "at least 1"]),
        ({"delta": 1}, ["delta=1", "less than 1"]),
        ({"epsilon": 0}, ["epsilon=0", "more than 0"]),
        ({"epsilon": "nan"}, ["epsilon=nan", "finite"]),
        ({"lr": "inf"}, ["lr=inf", "finite"]),
        ({"abstain": "maybe"}, ["abstain='maybe'", "true or false"]),
        ({"partition": "dirichelt"}, ["'dirichelt'", "did you mean 'dirichlet'"]),
        ({"client_models": ""}, ["client_models=''", "commas"]),
        ({"queries": 50, "public_size": 40}, ["queries=50", "public_size=40"]),
        ({"min_clients": 11, "clients": 10}, ["min_clients=11", "clients=10"]),
        ({"colluders": 9, "clients": 10}, ["colluders=9", "no honest client"]),
        ({"sigma": 3, "epsilon": "inf"}, ["sigma=3", "epsilon=inf"]),
        ({"passes": 2, "student": "argmax"}, ["passes=2", "argmax"]),
    ],
)
def test_errors_name_the_key_the_value_and_what_is_allowed(layer, words):
    with pytest.raises(SettingsError) as error:
        build(PateSettings, layer)
    assert all(word in str(error.value) for word in words), str(error.value)


def test_assignments():
    assert parse_assignments(["a=1", "b=x=y"]) == {"a": "1", "b": "x=y"}
    for bad in ("a", "=1"):
        with pytest.raises(SettingsError, match="key=value"):
            parse_assignments([bad])


@pytest.mark.parametrize("method", all_methods())
@pytest.mark.parametrize("preset", preset_names())
def test_every_preset_fits_every_method(preset, method):
    resolve(method, settings_types(), preset=preset)


def test_presets_name_only_methods_that_exist():
    for preset in preset_names():
        assert set(load_preset(preset).by_method) <= set(all_methods())
        assert load_preset(preset).about


def test_unknown_preset_names_the_nearest():
    with pytest.raises(SettingsError, match="did you mean 'demo'"):
        load_preset("demoo")


def test_files(tmp_path):
    good = tmp_path / "good.toml"
    good.write_text("clients = 5\n[pate-fl]\nepsilon = 2\n")
    chosen = resolve("pate-fl", settings_types(), config=good)
    assert (chosen.clients, chosen.epsilon) == (5, 2)
    good.write_text("[pate-f]\nepsilon = 2\n")
    with pytest.raises(SettingsError, match=r"good\.toml: table \[pate-f\].*did you mean 'pate-fl'"):
        load_file(good, tuple(all_methods()))
    bad = tmp_path / "bad.toml"
    bad.write_text("clients = ")
    with pytest.raises(SettingsError, match=r"bad\.toml: not valid TOML"):
        load_file(bad, ())
    with pytest.raises(SettingsError, match=r"missing\.toml"):
        load_file(tmp_path / "missing.toml", ())


def test_every_field_is_explained_and_its_default_is_allowed():
    for method in all_methods().values():
        for field in dataclasses.fields(method.settings):
            assert declaration(field).help, field.name
        method.settings()


@given(st.dictionaries(st.text(max_size=12), st.one_of(st.text(max_size=8), st.integers(), st.floats(), st.none())))
def test_any_layer_gives_settings_or_a_settings_error(layer):
    with contextlib.suppress(SettingsError):
        build(PateSettings, layer)


def test_plain_values_rebuild_the_same_settings():
    one = build(PateSettings, {"epsilon": "inf", "client_models": "mlp,knn", "noise_seed": 3})
    assert build(PateSettings, one.to_dict()) == one
    assert build(PateSettings, PateSettings().to_dict()) == PateSettings()


def test_without_further_words_nine_in_ten_clients_must_answer():
    assert build(CommonSettings, {"clients": 100}).min_clients == 90
    assert build(CommonSettings, {"clients": 1}).min_clients == 1
    assert build(CommonSettings, {"clients": 100, "min_clients": 3}).min_clients == 3


@dataclasses.dataclass(frozen=True)
class Part(Settings):
    """A part whose field a method declares again."""

    width: int = setting(3, "how wide", low=1, reads="server", headline=True)


@dataclasses.dataclass(frozen=True)
class Method(Part):
    """A method with another default."""

    width: int = again(Part, "width", 5, high=9)


def test_a_field_declared_again_keeps_all_but_what_it_changes():
    first, (second,) = declaration(dataclasses.fields(Part)[0]), dataclasses.fields(Method)
    assert (Method().width, declaration(second)) == (5, dataclasses.replace(first, high=9.0))
    for width in (0, 10):
        with pytest.raises(SettingsError, match=f"width={width}"):
            Method(width=width)


def test_what_each_machine_reads_is_left_out_on_demand():
    common = CommonSettings(workers=3)
    assert {*common.to_dict()} - {*common.to_dict(machine=False)} == {
        "workers",
        "clients_per_worker",
        "device",
        "engine",
        "gpu_fraction",
        "ray_address",
        "round_timeout_s",
    }


def test_the_top_of_a_report_shows_settings_that_say_something():
    shown = build(PateSettings, {"partition": "dirichlet", "sigma": 0}).headline()
    assert {"partition", "alpha", "epsilon", "student"} <= {*shown}
    assert not {"classes_per_client", "sigma", "queries", "seed"} & {*shown}
    assert "alpha" not in PateSettings().headline()
