"""What is refused before a run starts: models that cannot read what the settings give them."""

from __future__ import annotations

import re
from typing import Any

import pytest
from sklearn.linear_model import LogisticRegression

from fedballot.core.errors import SettingsError
from fedballot.core.setting import names_of
from fedballot.methods.registry import get_method, settings_types
from fedballot.runs.engine import check_learners, federated_data, new_strategy
from fedballot.settings.layers import resolve

SMALL = {"dataset": "digits", "clients": "3", "public_size": "60", "test_size": "50"}


def settings_of(method: str, **values: str) -> Any:
    known = {name: value for name, value in {**SMALL, **values}.items() if name in names_of(settings_types()[method])}
    return resolve(method, settings_types(), preset=None, values=known)


@pytest.mark.parametrize(
    ("method", "reads", "model", "records"),
    [
        ("fedauxfdp", {}, "server_model", {"student_reads": "records"}),
        ("pate-fl", {"server_features": "hog"}, "server_model", {"server_features": ""}),
        ("private-knn-fl", {"server_features": "hog"}, "server_model", {"server_features": ""}),
        ("ds-fl", {"server_features": "hog"}, "server_model", {"server_features": ""}),
        ("ds-fl", {"client_features": "hog"}, "client_models", {"client_features": ""}),
        ("selective-fd", {"client_features": "hog+pca"}, "client_models", {"client_features": ""}),
    ],
)
def test_models_are_tried_on_what_they_will_read(
    method: str, reads: dict[str, str], model: str, records: dict[str, str]
) -> None:
    def check(**changed: str) -> None:
        values = {**reads, "server_model": "linear-torch", "client_models": "linear-torch", **changed}
        check_learners(settings_of(method, **values), clients=True)

    check()
    with pytest.raises(SettingsError, match=f"{model}=cnn-small: .*takes images.*it reads the records themselves"):
        check(**{model: "cnn-small"})
    check(**{model: "cnn-small"}, **records)


def test_one_name_at_both_sides_is_tried_at_each() -> None:
    both = {"client_models": "cnn-small", "server_model": "cnn-small"}
    with pytest.raises(SettingsError, match=r"client_models=cnn-small: .*With client_features empty"):
        check_learners(settings_of("fedkt", client_features="hog", **both), clients=True)
    check_learners(settings_of("fedkt", client_features="hog", **both), clients=False)


def test_class_heads_of_fedaux_read_frozen_features() -> None:
    with pytest.raises(SettingsError, match=r"client_models=cnn-small: .*takes images"):
        check_learners(settings_of("fedaux-f", client_models="cnn-small"), clients=True)


def test_a_model_that_is_not_there_is_named_with_its_setting() -> None:
    with pytest.raises(SettingsError, match=r"server_model=nowhere:Nothing: .*imported"):
        check_learners(settings_of("fedauxfdp", server_model="nowhere:Nothing"), clients=True)


def test_parameters_are_tried_on_real_features_not_on_made_up_ones() -> None:
    check_learners(settings_of("fedauxfdp", server_model="catboost(depth=3)"), clients=True)


class SevenColumns(LogisticRegression):
    """A model that takes vectors of seven numbers and nothing else."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> SevenColumns:
        if X.shape[1] != 7:
            raise ValueError(f"needs 7 columns, not {X.shape[1]}")
        super().fit(X, y, sample_weight)
        return self


SEVEN = "tests.runs.test_engine:SevenColumns"


@pytest.mark.parametrize(("dimension", "works"), [("7", True), ("8", False)])
def test_a_model_of_ones_own_is_tried_on_the_frozen_features_before_anybody_is_asked(
    dimension: str, works: bool
) -> None:
    settings = settings_of("fedauxfdp-sum", server_model=SEVEN, embedding="pca", dimension=dimension, epsilon="1")
    check_learners(settings, clients=True)
    strategy = new_strategy(get_method("fedauxfdp-sum"), settings, federated_data(settings), request_id="r")
    if works:
        strategy.ready()
        return
    with pytest.raises(SettingsError, match=r"server_model=.*needs 7 columns, not 8") as found:
        strategy.ready()
    assert "student_reads" not in str(found.value)  # records have 64


@pytest.mark.parametrize(
    ("method", "setting", "chain"),
    [
        ("fedauxfdp", "extractor", "pca+hog"),
        ("fedaux", "extractor", "nowhere:Nothing"),
        ("private-knn-fl", "extractor", "pca+deskew"),
        ("poll", "extractor", "pca+hog"),
        ("pate-fl", "graph_features", "hog+deskew"),
        ("pate-fl", "server_features", "pca+hog"),
        ("ds-fl", "client_features", "pca+hog"),
        ("selective-fd", "selector_features", "pca+hog"),
    ],
)
def test_an_extractor_that_cannot_be_built_is_named_with_its_setting(method: str, setting: str, chain: str) -> None:
    settings = settings_of(method, **{setting: chain})
    with pytest.raises(SettingsError, match=rf"^{setting}={re.escape(chain)}: extractor"):
        check_learners(settings, clients=False)


@pytest.mark.parametrize("method", ["pate-fl", "fedauxfdp", "ds-fl"])
def test_a_server_model_cannot_have_more_neighbours_than_there_are_public_records(method: str) -> None:
    check_learners(settings_of(method, server_model="knn(n_neighbors=60)", client_models="knn"), clients=True)
    many = "sklearn.neighbors:KNeighborsClassifier(n_neighbors=61)"
    with pytest.raises(
        SettingsError, match=rf"^server_model={re.escape(many)}: n_neighbors=61 .*the 60 records .*: ask"
    ):
        check_learners(settings_of(method, server_model=many, client_models="knn"), clients=True)
    check_learners(settings_of(method, server_model="knn", client_models="knn(n_neighbors=1000)"), clients=True)


def test_a_model_on_pooled_records_may_have_as_many_neighbours_as_there_are_of_them() -> None:
    check_learners(settings_of("centralized", server_model="knn(n_neighbors=1000)"), clients=True)
    with pytest.raises(SettingsError, match=r"n_neighbors=2000 is more than the 1687 records"):
        check_learners(settings_of("centralized", server_model="knn(n_neighbors=2000)"), clients=True)
