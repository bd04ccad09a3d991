"""What a site accepts of what a server sets: every setting of every method is bounded, and nothing is imported."""

from __future__ import annotations

import dataclasses
import math
import sys
import tempfile
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from fedballot.clients.workspace import Refusal
from fedballot.core.errors import SettingsError
from fedballot.core.setting import Declaration, build, declaration, setting
from fedballot.datasets.own import SITES
from fedballot.deploy.check import check_site
from fedballot.deploy.client import SiteClient
from fedballot.deploy.rules import check_request, check_weights, limits_of, site_settings
from fedballot.deploy.site_file import Site, read_site
from fedballot.deploy.template import init_site
from fedballot.learners.extractors import network_digest
from fedballot.methods.registry import Method, all_methods, get_method
from fedballot.privacy.ledger import Ledger
from fedballot.runs.engine import federated_data
from fedballot.settings.baselines import PooledSettings
from fedballot.settings.fedaux import FedauxfdpSettings, FedauxSettings
from fedballot.settings.fedmd import LdpSettings
from fedballot.settings.parts import CommonSettings, LocalTraining
from fedballot.settings.voting import KnnSettings, PateSettings
from fedballot.settings.weights_private import DpFedavgSettings
from tests.deploy.harness import edit, write_data
from tests.packages import install

READERS = {"client", "server", "machine", "site"}
OWN = {
    "dataset",
    "public_dataset",
    "schema",
    "label",
    "drop",
    "id",
    "encoder",
    "image_reader",
    "image_size",
    "clients",
    "client_models",
}  # what a site's file says itself
FIELDS = [(method, field) for method in all_methods().values() for field in dataclasses.fields(method.settings)]
INFINITE = [(method, field.name) for method, field in FIELDS if declaration(field).infinite]
METHOD = {"argvalues": list(all_methods().values()), "ids": list(all_methods())}


def new_site(folder: Path, text: str = "", **changes: Any) -> Site:
    """A site of three, numbered 1, with changed keys and more lines under [allowed.settings]."""
    init_site(folder, number=1, sites=3, server="localhost:1")
    path = folder / "site.toml"
    edit(path, model="logistic-regression", methods=list(all_methods()), secure_aggregation=False, **changes)
    path.write_text(path.read_text() + text)
    return read_site(path)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return new_site(tmp_path / "site")


def settings_for(kind: type[Any] | Method = PateSettings, **changes: Any) -> Any:
    """Settings of a run of three sites; those of methods that are infinite without further words get a target."""
    kind = kind.settings if isinstance(kind, Method) else kind
    names = {field.name for field in dataclasses.fields(kind)}
    values = {"dataset": SITES, "public_dataset": "public.npz", "clients": 3, "public_size": 200, "records": 100}
    values = {name: value for name, value in values.items() if name in names}
    return build(kind, values, changes)


def refusal(site: Site, settings: Any, method: str = "pate-fl") -> str:
    """The sentence with which a request is refused; empty if it is not."""
    try:
        check_request(site, get_method(method), settings)
    except Refusal as error:
        assert error.reason == "policy"
        return str(error)
    return ""


@pytest.mark.parametrize(("method", "field"), FIELDS, ids=[f"{method.name}-{field.name}" for method, field in FIELDS])
def test_every_setting_of_every_method_has_a_reader_and_a_limit_that_fits_it(method: Method, field: Any) -> None:
    declared = declaration(field)
    reads, limit = declared.reads, declared.site_limit
    kind = typing.get_type_hints(method.settings)[field.name]
    assert reads in READERS and (reads == "site") == (field.name in OWN)
    if reads != "client":
        assert limit is None, "a limit on what no client reads says nothing"
        return
    assert limit is not None or declared.kind, (
        f"{field.name} reaches clients: give it a site_limit, or () for its default alone"
    )
    if declared.kind == "extractor":
        assert kind is str
    elif kind == tuple[float, ...]:  # each of them
        low, high = limit
        assert 0 < low < high < math.inf and field.default == ()
    elif kind in (int, float):
        low, high = limit
        assert math.isfinite(low) and math.isfinite(high) and low < high
        assert low <= field.default <= high or math.isinf(field.default)
    elif limit:
        assert field.default in limit
        assert set(limit) <= ({False, True} if kind is bool else set(typing.get_args(kind)))


def test_names_that_a_server_sets_are_the_site_s_or_reach_it_by_its_list_alone() -> None:
    """A text without a choice of words could name a module, a file or an address."""
    texts = {
        (field.name, declaration(field).kind or declaration(field).site_limit, declaration(field).reads)
        for method, field in FIELDS
        if typing.get_type_hints(method.settings)[field.name] in (str, tuple[str, ...])
    }
    assert texts == {
        ("dataset", None, "site"),
        ("public_dataset", None, "site"),
        ("schema", None, "site"),
        ("label", None, "site"),
        ("drop", None, "site"),
        ("id", None, "site"),
        ("encoder", None, "site"),
        ("image_reader", None, "site"),
        ("encoder", None, "site"),
        ("client_models", None, "site"),
        ("server_model", None, "server"),
        ("ray_address", None, "machine"),
        ("partition", None, "server"),
        ("graph_features", "extractor", "server"),
        ("server_features", "extractor", "server"),
        ("private_classes", (), "client"),
        ("extractor", "extractor", "client"),
        ("client_features", "extractor", "client"),
        ("selector_features", "extractor", "client"),
    }


@dataclasses.dataclass(frozen=True)
class NewSettings(CommonSettings):
    """A method's settings as somebody may write them who has not heard of sites."""

    depth: int = setting(3, "how deep")
    style: Literal["plain", "odd"] = setting("plain", "how")
    source: str = setting("", "where from")


@pytest.mark.parametrize(("name", "value"), [("depth", 4), ("style", "odd"), ("source", "https://example.org/x.py")])
def test_a_new_setting_stays_at_its_default_unless_its_declaration_says_more(site: Site, name: str, value: Any) -> None:
    method = dataclasses.replace(get_method("pate-fl"), settings=NewSettings)
    check_request(site, method, settings_for(NewSettings))
    with pytest.raises(Refusal, match=f"{name}={value!r}; this site allows .* only"):
        check_request(site, method, settings_for(NewSettings, **{name: value}))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"epochs": 1_000_000_000}, "epochs=1000000000; this site allows 1 to 500"),
        ({"epochs": 0}, "epochs=0; this site allows 1 to 500"),
        ({"batch_size": 10**9}, "batch_size=1000000000; this site allows 1 to 4096"),
        ({"lr": 1e300}, "lr=1e+300; this site allows 1e-06 to 10"),
        ({"lr": 1e-300}, "lr=1e-300; this site allows 1e-06 to 10"),
        ({"domain_adaptation": 1e9, "abstain": False}, "domain_adaptation=1000000000.0; this site allows 0.0 to 10"),
        ({"min_clients": 1}, "min_clients=1; this site allows at least 2"),
        ({"noise_seed": 1}, "seeded noise protects nobody"),
    ],
)
def test_what_a_server_sets_is_refused_beyond_the_built_in_limits(site: Site, changes: Any, words: str) -> None:
    assert refusal(site, settings_for()) == ""
    assert words.replace("0.0 to", "0 to") in refusal(site, settings_for(**changes))


def test_a_site_s_own_limits_replace_the_built_in_ones(tmp_path: Path) -> None:
    text = 'epochs = [1, 20]\nlr = [1e-4, 0.1]\nshare = ["argmax"]\nabstain = [true]\n'
    site = new_site(tmp_path / "site", text)
    assert refusal(site, settings_for(epochs=20)) == ""
    assert "epochs=21; this site allows 1 to 20" in refusal(site, settings_for(epochs=21))
    assert "lr=0.5; this site allows 0.0001 to 0.1" in refusal(site, settings_for(lr=0.5, epochs=20))
    assert "abstain=False; this site allows true only" in refusal(site, settings_for(abstain=False, epochs=20))
    ldp = settings_for(LdpSettings, share="softmax", epochs=20)
    assert "share='softmax'; this site allows argmax only" in refusal(site, ldp, "fedmd-ldp")
    wider = new_site(tmp_path / "wider", "epochs = [0, 5000]\n")
    assert refusal(wider, settings_for(epochs=5000)) == refusal(wider, settings_for(epochs=0)) == ""
    limits = {one.what: one.words for one in check_site(site.path)}
    assert "epochs: 1 to 20; " in limits["limits of pate-fl"] and "lr: 0.0001 to 0.1; " in limits["limits of pate-fl"]
    assert limits["limits"].startswith(
        "at most 1000 queries; epsilon 0.1 to 5 for a release; answers of at least 2 sites"
    )


@pytest.mark.parametrize("masks", [False, True])
def test_the_fewest_colluders_and_answers_are_the_site_s_to_say(tmp_path: Path, masks: bool) -> None:
    site = new_site(tmp_path / "site", least_colluders=1, least_clients=3)
    good = {"secure_aggregation": masks, "colluders": 1, "min_clients": 3}
    assert refusal(site, settings_for(**good)) == ""
    assert "colluders=0; this site allows 1 to 1000000" in refusal(site, settings_for(**good | {"colluders": 0}))
    few = settings_for(**good | {"min_clients": 2, "secure_aggregation": False})
    assert "min_clients=2; this site allows at least 3" in refusal(site, few)
    assert refusal(site, settings_for(**good | {"min_clients": 0})) == "", "nine in ten of three are three"


@pytest.mark.parametrize(("method", "name"), INFINITE, ids=[f"{method.name}-{name}" for method, name in INFINITE])
def test_no_infinite_target_is_accepted_whoever_reads_it(site: Site, method: Method, name: str) -> None:
    settings = settings_for(method, **{name: math.inf})
    assert "inf: this site releases nothing without noise" in refusal(site, settings, method.name)


def test_a_score_head_without_noise_does_not_leave_beside_a_class_head_that_is_paid_for(tmp_path: Path) -> None:
    print_ = write_data(tmp_path)
    places = {"private": str(tmp_path / "own1.npz"), "public": str(tmp_path / "public.npz")}
    rules = {"unit": "record", "delta": 2e-5, "largest_epsilon": 10.0, "smallest_epsilon": 0.0}
    site = new_site(tmp_path / "site", **places, **rules, public_fingerprint=print_)
    values = {"public_dataset": places["public"], "test_size": 100, "head": "logistic", "extractor": "pca"}
    for score_epsilon, arrays, refused in ((0.5, 2, ""), (math.inf, 0, "policy")):
        settings = settings_for(FedauxfdpSettings, **values, components=20, score_epsilon=score_epsilon)
        fingerprint = federated_data(settings).public_fingerprint
        config = {"request": f"{score_epsilon}/1", "round": 1, "fingerprint": fingerprint}
        out, _, metrics = SiteClient(site.path, get_method("fedauxfdp"), settings).fit([], config)
        assert (len(out), metrics["refused"]) == (arrays, refused)
    assert len(Ledger(site.budget.ledger).costs()) == 2, "those of the first request"


def test_a_method_of_one_client_is_none_of_a_site_s(site: Site) -> None:
    assert "no site takes part" in refusal(site, settings_for(PooledSettings), "centralized")


# names of modules


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An extractor of a module that leaves a file behind when it is imported."""
    (tmp_path / "planted_module.py").write_text(
        f"open({str(tmp_path / 'imported')!r}, 'w').close()\n"
        "def factory(input_shape):\n"
        "    import torch\n"
        "    return torch.nn.Flatten()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("FEDBALLOT_CACHE", str(tmp_path / "cache"))
    yield "planted_module:factory"
    sys.modules.pop("planted_module", None)


def knn_site(tmp_path: Path, **changes: Any) -> tuple[Site, dict[str, Any]]:
    print_ = write_data(tmp_path)
    places = {"private": str(tmp_path / "own1.npz"), "public": str(tmp_path / "public.npz")}
    site = new_site(
        tmp_path / "site", **places, public_fingerprint=print_, unit="record", largest_epsilon=50.0, **changes
    )
    edit(site.path, epsilon=100.0)
    return site, {"public_dataset": places["public"], "public_size": 100, "test_size": 100, "epsilon": 40, "k": 5}


def ask_knn(site: Site, values: dict[str, Any], **changes: Any) -> dict[str, Any]:
    settings = settings_for(KnnSettings, **values, **changes)
    config = {"request": "r/1", "round": 1, "fingerprint": federated_data(settings).public_fingerprint}
    _, _, metrics = SiteClient(site.path, get_method("private-knn-fl"), settings).fit([np.arange(100)], config)
    return metrics


def test_a_module_is_imported_only_if_the_site_s_file_lists_it(tmp_path: Path, planted: str) -> None:
    site, values = knn_site(tmp_path)
    metrics = ask_knn(site, values, extractor=planted)
    assert metrics["refused"] == "policy"
    assert f"extractor={planted!r}; this site allows auto, none" in metrics["detail"]
    assert not (tmp_path / "imported").exists()
    assert not (site.path.parent / "ledger").exists()


def test_a_module_that_is_listed_is_imported(tmp_path: Path, planted: str) -> None:
    pytest.importorskip("torch")
    site, values = knn_site(tmp_path, extractors=[planted])
    assert ask_knn(site, values, extractor=planted)["refused"] == ""
    assert (tmp_path / "imported").exists()
    assert "this site allows planted_module:factory only" in ask_knn(site, values, extractor="auto")["detail"]


@pytest.fixture
def named(tmp_path: Path, planted: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The same under a name that an installed package adds."""
    entries = f"[fedballot.extractors]\ntheirs = {planted}\n[fedballot.partitions]\ntheirs = {planted}\n"
    install(tmp_path / "installed", {}, entries, patch=monkeypatch)
    return "theirs"


def test_a_name_that_a_package_adds_is_imported_only_if_the_site_s_file_lists_it(tmp_path: Path, named: str) -> None:
    site, values = knn_site(tmp_path)
    assert "extractor='theirs'; this site allows auto, none" in ask_knn(site, values, extractor=named)["detail"]
    assert not (tmp_path / "imported").exists()
    edit(site.path, extractors=["theirs+l2"])
    assert "this site allows theirs+l2 only" in ask_knn(site, values, extractor=named)["detail"]
    assert not (tmp_path / "imported").exists()
    pytest.importorskip("torch")
    assert ask_knn(site, values, extractor="theirs + l2")["refused"] == ""
    assert (tmp_path / "imported").exists()


@pytest.mark.parametrize("partition", ["theirs", "planted_module:factory", "no_such_package:deal"])
def test_a_partition_that_the_server_names_is_never_imported_at_a_site(
    tmp_path: Path, named: str, partition: str
) -> None:
    site, values = knn_site(tmp_path)
    assert ask_knn(site, values, extractor="none", partition=partition)["refused"] == ""
    assert not (tmp_path / "imported").exists()


def test_what_is_listed_but_not_installed_is_refused_when_the_site_s_file_is_read(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"allowed\.extractors holds 'theirs': unknown extractor step 'theirs'"):
        knn_site(tmp_path, extractors=["theirs"])


def test_the_order_and_the_blanks_of_steps_are_no_way_round(tmp_path: Path) -> None:
    site = new_site(tmp_path / "site", extractors=["hog + pca", "simclr-resnet8"])
    assert site.allowed.extractors == ("hog+pca", "simclr-resnet8")
    for name, good in (("hog+pca", True), (" hog +pca", True), ("pca+hog", False), ("hog", False), ("auto", False)):
        assert (refusal(site, settings_for(KnnSettings, extractor=name), "private-knn-fl") == "") == good


@pytest.mark.parametrize("method", **METHOD)
def test_no_other_name_that_the_server_sets_reaches_the_site(site: Site, method: Method) -> None:
    """What the server and its machine read stands at its default; model and source are the site's own."""
    names = {"client_models", "server_model", "graph_features", "server_features", "partition", "label", "drop", "id"}
    names |= {"image_reader", "encoder"}
    own = {field.name for field in dataclasses.fields(method.settings)}
    hostile: dict[str, Any] = dict.fromkeys(names & own, "planted_module:factory")
    hostile |= {"alpha": 7, "device": "cuda", "workers": 9}
    seen = site_settings(site, settings_for(method, **hostile))
    assert "planted_module" not in str(seen) and getattr(seen, "client_models", ()) in ((), ("logistic-regression",))
    assert seen.public_dataset == str(site.data.public) and seen.dataset == SITES
    usual = site_settings(site, settings_for(method))
    assert seen == usual, "two requests that differ for the server alone are the same"


def test_what_clients_read_reaches_the_site_as_asked(site: Site) -> None:
    seen = site_settings(site, settings_for(epochs=7, lr=0.1, colluders=1, seed=9, server_lr=0.5, passes=2))
    assert (seen.epochs, seen.lr, seen.colluders, seen.seed) == (7, 0.1, 1, 9)
    assert (seen.server_lr, seen.passes) == (PateSettings.server_lr, PateSettings.passes)


# weights that the server sends

WEIGHTS = np.linspace(-1, 1, 50, dtype=np.float32)


def test_weights_are_taken_with_the_digest_that_the_refusal_names_and_no_others(tmp_path: Path) -> None:
    site = new_site(tmp_path / "site", extractors=["simclr-resnet8+l2", "pca"])
    settings, other = settings_for(FedauxfdpSettings, extractor="simclr-resnet8+l2"), WEIGHTS * 2
    check_weights(site, settings, [])  # then the site trains its own on public images
    with pytest.raises(Refusal) as caught:
        check_weights(site, settings, [WEIGHTS, np.zeros((4, 4), np.float32)])
    entry = f"simclr-resnet8+l2@{network_digest(WEIGHTS)}"
    assert caught.value.reason == "policy" and repr(entry) in str(caught.value)
    edit(site.path, extractors=[entry])
    site = read_site(site.path)
    assert refusal(site, settings, "fedauxfdp") == ""
    check_weights(site, settings, [WEIGHTS, np.zeros((4, 4), np.float32)])
    with pytest.raises(Refusal, match=network_digest(other)):
        check_weights(site, settings, [other])
    with pytest.raises(Refusal, match=network_digest(other)):
        check_weights(site, settings, [WEIGHTS, other])


def test_weights_for_features_that_take_none_are_refused(site: Site) -> None:
    with pytest.raises(Refusal, match="extractor='pca' takes none"):
        check_weights(site, settings_for(FedauxfdpSettings, extractor="pca"), [WEIGHTS])


def test_landmarks_queries_masks_and_models_are_no_weights_of_an_extractor(site: Site) -> None:
    settings = settings_for(FedauxfdpSettings, extractor="pca")
    check_weights(site, settings, [np.zeros((4, 4), np.float32)])
    check_weights(site, settings, [np.zeros(4, np.uint8), np.zeros(4, np.int32)])
    check_weights(site, settings_for(KnnSettings), [WEIGHTS])
    check_weights(site, settings_for(DpFedavgSettings), [WEIGHTS])
    with pytest.raises(Refusal, match="simclr-resnet8-gn@sha256"):
        check_weights(site, settings_for(FedauxSettings), [WEIGHTS, WEIGHTS.astype(np.int64)])


# a hostile server


def values_for(kind: Any, declared: Declaration) -> st.SearchStrategy[Any]:
    """Values of a declared type, most of them near its range, some at the ends of what can be written."""
    if typing.get_origin(kind) is Literal:
        return st.sampled_from(typing.get_args(kind))
    if kind is bool:
        return st.booleans()
    if kind is str:
        return st.sampled_from(
            ["auto", "pca", "hog+pca", "this:s", "shutil:disk_usage", "simclr-resnet8", "/etc/passwd"]
        )
    if kind == tuple[float, ...]:
        return st.lists(st.floats(0, 20) | st.sampled_from([2.0, 2000.0, math.inf]), max_size=4)
    numbers = st.integers(-2, 3000) | st.sampled_from([0, 1, 2**31, 2**63, 10**18])
    if kind is float:
        numbers = st.floats(0, 20) | st.floats() | st.sampled_from([1e-300, 1e300, math.inf])
    ends = [end for end in (declared.low, declared.high) if end is not None]
    return numbers | st.sampled_from([kind(end) for end in ends]) if ends else numbers


def acceptable(method: Method) -> dict[str, Any]:
    """Settings that a strict site accepts, of a method that does tell something under noise."""
    names = {field.name for field in dataclasses.fields(method.settings)}
    values = {"epsilon": 2, "extractor": "pca", "colluders": 1, "min_clients": 3, "epochs": 20}
    return {name: value for name, value in values.items() if name in names}


@st.composite
def requests(draw: st.DrawFn) -> tuple[Method, Any]:
    """A method and settings of it; up to four of them, of whatever kind, are drawn, the others would be accepted."""
    method = draw(st.sampled_from(list(all_methods().values())))
    kinds = typing.get_type_hints(method.settings)
    fields = draw(st.lists(st.sampled_from(dataclasses.fields(method.settings)), max_size=4, unique=True))
    values = acceptable(method)
    for field in fields:
        kind = kinds[field.name]
        if kind in (int, float, bool, str) or typing.get_origin(kind) is Literal:
            values[field.name] = draw(values_for(kind, declaration(field)))
        elif field.name == "noise_seed":
            values[field.name] = draw(st.none() | st.integers(0, 9))
        else:
            values[field.name] = draw(st.sampled_from(["all", "this:s", "cnn,mlp"]))
    try:
        return method, settings_for(method, **values)
    except SettingsError:
        return method, None


@pytest.fixture(scope="module")
def strict() -> Iterator[Site]:
    with tempfile.TemporaryDirectory() as folder:
        yield new_site(Path(folder) / "site", "epochs = [2, 50]\n", extractors=["pca"], least_colluders=1)


@hypothesis_settings(max_examples=300, deadline=None)
@given(request=requests())
def test_any_settings_are_refused_or_lie_within_every_limit(strict: Site, request: tuple[Method, Any]) -> None:
    method, settings = request
    if settings is None or (words := refusal(strict, settings, method.name)):
        # a refusal is a function of the request and the file alone, and names a setting or the method
        assert settings is None or words == refusal(strict, settings, method.name)
        return
    seen = site_settings(strict, settings)
    if isinstance(seen, LocalTraining):
        assert 2 <= seen.epochs <= 50 and 1 <= seen.batch_size <= 4096 and 1e-6 <= seen.lr <= 10
    assert seen.min_clients >= 2 and getattr(seen, "colluders", 1) >= 1
    assert getattr(seen, "extractor", "pca").strip() == "pca" and getattr(seen, "noise_seed", None) is None
    for field in dataclasses.fields(method.settings):
        value, asked_for = getattr(seen, field.name), getattr(settings, field.name)
        assert not (isinstance(asked_for, float) and math.isinf(asked_for))
        assert not isinstance(value, str) or ":" not in value
        if declaration(field).reads in ("server", "machine"):
            assert value == field.default
        elif declaration(field).reads == "client" and isinstance(value, int | float) and not isinstance(value, bool):
            assert abs(value) < 2**63
    assert {name for name, limit in limits_of(strict, method).items() if not limit.holds(getattr(seen, name))} == set()


def test_the_hostile_server_is_not_always_refused(strict: Site) -> None:
    """Else the test above would hold of a site that answers nothing."""
    accepted = {
        method.name
        for method in all_methods().values()
        if not refusal(strict, settings_for(method, **acceptable(method)), method.name)
    }
    assert accepted == set(all_methods()) - {"centralized", "public-only"}
