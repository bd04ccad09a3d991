"""A federation's data as models see them that learn from the features of an extractor."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np

from fedballot.datasets.federation import FederatedData
from fedballot.learners.extractors import Extractor, make_extractor


@lru_cache(maxsize=4)  # once per process, whatever the number of clients and rounds
def seen_through(name: str, data: FederatedData, components: int, device: str) -> tuple[Extractor, FederatedData]:
    """The extractor, fitted on the public pool, and the data with features (n, d) in place of public and test records.

    Private records stay as they are: each client puts its own through the extractor. The fingerprint is still that
    of the records.

    Raises
    ------
    SettingsError
        If there is no such extractor, or it cannot take the data.
    """
    made = make_extractor(name, input_shape=data.public_x.shape[1:], components=components, device=device)
    extractor = made.fit(data.public_x)
    public_x, test_x = (extractor.transform(np.asarray(x)) for x in (data.public_x, data.test_x))
    return extractor, replace(data, public_x=public_x, test_x=test_x)


def seen_by(name: str, data: FederatedData, components: int, device: str) -> FederatedData:
    """The data as a model sees them: through an extractor, or as they are where none is named."""
    return seen_through(name, data, components, device)[1] if name else data
