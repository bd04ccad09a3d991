"""What is refused before a run starts: models that cannot read what the settings give them."""

from __future__ import annotations

from typing import Any

import pytest

from fedballot.core.errors import SettingsError
from fedballot.methods.registry import settings_types
from fedballot.runs.engine import check_learners
from fedballot.settings.layers import resolve
from fedballot.settings.parts import client_models, server_models

SMALL = {"dataset": "digits", "clients": "3", "public_size": "60", "test_size": "50"}


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
        values = {**SMALL, **reads, "server_model": "linear-torch", "client_models": "linear-torch", **changed}
        known = {name: value for name, value in values.items() if name in settings_types()[method].__dataclass_fields__}
        settings: Any = resolve(method, settings_types(), preset=None, values=known)
        check_learners(settings, (*client_models(settings), *server_models(settings)))

    check()
    with pytest.raises(SettingsError, match=f"{model}=cnn-small: .*takes images.*it reads the records themselves"):
        check(**{model: "cnn-small"})
    check(**{model: "cnn-small"}, **records)
