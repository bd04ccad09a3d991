"""What server and clients of the FedAUX family share: how the public pool is split, and the frozen features.

Paper: "FedAUXfdp: Differentially private one-shot federated distillation", sections 3 and 5: of the auxiliary data
80 % are distilled on, 20 % pretrain the extractor and are the negatives of the score models.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedballot.core.errors import SettingsError
from fedballot.core.seeds import Stream, generator
from fedballot.datasets.federation import FederatedData
from fedballot.learners.base import FloatArray
from fedballot.learners.extractors import Extractor, make_extractor
from fedballot.settings.heads import FrozenSettings

Indices = npt.NDArray[np.int64]


def split_public(size: int, share: float, seed: int) -> tuple[Indices, Indices]:
    """Rows of the public pool to distil on, and auxiliary rows (pretraining, negatives): sorted, without overlap."""
    order = generator(seed, Stream.PUBLIC_SPLIT).permutation(size)
    auxiliary = round(share * size)
    return np.sort(order[auxiliary:]), np.sort(order[:auxiliary])


def new_extractor(settings: FrozenSettings, data: FederatedData, device: str) -> Extractor:
    """The extractor that the settings name, not fitted yet.

    Raises
    ------
    SettingsError
        If it does not exist or cannot take the data.
    """
    return make_extractor(
        settings.extractor,
        input_shape=data.public_x.shape[1:],
        components=settings.components,
        device=device,
        epochs=settings.pretrain_epochs,
        seed=settings.seed,
    )


def fitted_extractor(
    settings: FrozenSettings, data: FederatedData, device: str, network: FloatArray | None = None
) -> Extractor:
    """The extractor, fitted on the auxiliary rows of the public pool; errors as :func:`new_extractor`."""
    pool = np.asarray(data.public_x)
    _, auxiliary = split_public(len(pool), settings.pretrain_share, settings.seed)
    return new_extractor(settings, data, device).fit(pool[auxiliary], network)


@dataclass(frozen=True, eq=False)
class PublicFeatures:
    """Features of the public pool.

    Attributes
    ----------
    distil, auxiliary : int64 rows of the pool, see :func:`split_public`.
    extractor : fitted on the auxiliary rows.
    features : float32 (public_size, p).
    bound : largest norm among them: the public bound that private features are clipped to.
    """

    distil: Indices
    auxiliary: Indices
    extractor: Extractor
    features: FloatArray
    bound: float


def public_features(
    settings: FrozenSettings, data: FederatedData, device: str, network: FloatArray | None = None
) -> PublicFeatures:
    """Fit the extractor and extract the pool's features, once per process; the costly steps are cached on disk.

    Parameters
    ----------
    network
        Weights of a contrastive extractor that the server has trained; None: train here.

    Raises
    ------
    SettingsError
        If the extractor does not fit the data.
    """
    key = (
        settings.extractor,
        settings.components,
        settings.pretrain_share,
        settings.pretrain_epochs,
        settings.seed,
        data.public_fingerprint,
        device,
        None if network is None else network.tobytes(),
    )
    found = _KEPT.get(key)
    if found is None:
        _KEPT.clear()  # one experiment at a time
        found = _KEPT[key] = _fitted(settings, data, device, network)
    return found


_KEPT: dict[Any, PublicFeatures] = {}


def _fitted(settings: FrozenSettings, data: FederatedData, device: str, network: FloatArray | None) -> PublicFeatures:
    pool = np.asarray(data.public_x)
    distil, auxiliary = split_public(len(pool), settings.pretrain_share, settings.seed)
    extractor = fitted_extractor(settings, data, device, network)
    features = extractor.transform(pool)
    bound = float(np.sqrt(np.einsum("ij,ij->i", features, features, dtype=np.float64).max()))
    if not bound > 0:
        raise SettingsError(f"extractor {settings.extractor!r}: all public features are 0")
    return PublicFeatures(distil, auxiliary, extractor, features, bound)
