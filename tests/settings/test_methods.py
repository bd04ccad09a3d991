"""What each method can set: parts that it reads, the nearest declaration of each, and nothing that could not help."""

import dataclasses

import pytest

from fedballot.core.errors import SettingsError
from fedballot.core.setting import declaration
from fedballot.methods.registry import all_methods, settings_types
from fedballot.settings.layers import require, resolve

METHODS = all_methods()
FIELDS = [(name, field) for name, method in METHODS.items() for field in dataclasses.fields(method.settings)]


@pytest.mark.parametrize(("method", "field"), FIELDS, ids=[f"{name}-{field.name}" for name, field in FIELDS])
def test_the_nearest_declaration_of_a_setting_counts(method, field):
    """A dataclass takes a field from the last base that holds it, which may only have inherited it itself."""
    kind = METHODS[method].settings
    own = next(vars(one)["__dataclass_fields__"][field.name] for one in kind.__mro__ if field.name in vars(one))
    assert (field.default, declaration(field)) == (own.default, declaration(own))


@pytest.mark.parametrize(
    ("method", "names"),
    [
        ("private-knn-fl", "epochs batch_size lr client_models"),
        ("fedmd", "server_model server_epochs server_batch_size server_lr noise_seed"),
        ("fedavg", "server_model server_epochs server_batch_size server_lr"),
        ("feddf", "server_model"),
        ("fedgen", "server_model server_epochs domain_adaptation"),  # it does without a public pool
        ("dp-fedavg", "weights"),  # one client would count for more than clip, on which the noise rests
        ("dp-fedsgd", "weights domain_adaptation"),  # whose loss has no gradient of a single record
        ("fedaux", "server_model epsilon share"),  # models have no noise
        ("fedaux-f", "epsilon share"),  # a class head may be any model, so it has no noise and is not told
        ("fedauxfdp-sum", "head precision share lam mechanism score_epsilon weighting evaluate_clients"),
        ("fedavg-p", "server_model client_models weighting"),
        ("standalone", "server_model evaluate_clients epsilon"),
        ("centralized", "client_models epochs"),
    ],
)
def test_what_a_method_would_not_read_cannot_be_set(method, names):
    kinds = settings_types()
    for name in names.split():
        having = next(other for other, kind in kinds.items() if name in kind.__dataclass_fields__)
        with pytest.raises(SettingsError, match=f"{method} has no setting '{name}'.*{having}.* ha(s|ve) it"):
            require({name: 1}, method, kinds)


def test_a_preset_may_name_what_only_other_methods_have_and_a_file_may_not(tmp_path):
    kinds = settings_types()
    assert resolve("fedmd", kinds, preset="fedmd-digits").epochs == 100  # whose common part names server_model
    own = tmp_path / "own.toml"
    own.write_text("epochs = 3\nserver_epochs = 4\n")
    assert resolve("pate-fl", kinds, config=own).server_epochs == 4
    with pytest.raises(SettingsError, match="fedmd has no setting 'server_epochs'"):
        resolve("fedmd", kinds, config=own)
    with pytest.raises(SettingsError, match="exclude each other"):
        resolve("fedmd", kinds, preset="demo", config=own)


def test_a_default_of_the_caller_is_left_out_where_a_method_lacks_it():
    kinds = settings_types()
    assert resolve("pate-fl", kinds, defaults={"secure_aggregation": True}).secure_aggregation
    assert resolve("fedmd", kinds, defaults={"secure_aggregation": True}) == resolve("fedmd", kinds)


@pytest.mark.parametrize(
    ("method", "name"),
    [(method, field.name) for method, field in FIELDS if declaration(field).kind == "extractor"],
)
def test_an_unknown_step_is_named_with_its_setting(method, name):
    with pytest.raises(SettingsError, match=rf"^{name}=hog\+hgo: unknown extractor step 'hgo'; did you mean 'hog'"):
        resolve(method, settings_types(), values={name: "hog+hgo"})
