"""What a server's model learned from, where it is not the records: made again of the public records of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from fedballot.clients.frozen import fitted_extractor
from fedballot.core.errors import DataError
from fedballot.core.files import read_arrays
from fedballot.core.folders import RunFolder
from fedballot.datasets.embedding import Space
from fedballot.datasets.encoders.sources import make_encoder
from fedballot.datasets.encoders.stored import encoded
from fedballot.datasets.federation import FederatedData
from fedballot.learners.base import Inputs
from fedballot.learners.extractors import make_extractor
from fedballot.methods.registry import get_method, settings_types
from fedballot.runs.engine import federated_data
from fedballot.runs.results import load_result
from fedballot.settings import layers
from fedballot.settings.heads import FrozenSettings
from fedballot.settings.parts import CommonSettings


def encoder_step(told: Mapping[str, str]) -> Callable[[Inputs], Inputs]:
    """What turns records into an encoder's features; ``told`` is its name and digest.

    Raises
    ------
    SettingsError
        If the encoder is not to be had.
    DataError
        If it is another one now.
    """
    encoder = make_encoder(told["name"])
    if encoder.digest != told["digest"]:
        raise DataError(
            f"the model learned from features of encoder={told['name']} with the digest {told['digest']}, but "
            f"the one on this machine has {encoder.digest}; install the encoder that the run had"
        )
    return partial(encoded, encoder)


def refitted(folder: Path, name: str, device: str) -> tuple[Callable[[Inputs], Inputs], tuple[int, ...]]:
    """What turns records into a server's features (``server_features``), and their shape.

    Raises
    ------
    DataError
        If the run's public records are not at hand.
    """
    settings, data = _run_of(folder, name)
    extractor = make_extractor(
        name,
        input_shape=data.public_x.shape[1:],
        components=int(getattr(settings, "components", 64)),
        device=device,
    ).fit(data.public_x)
    return extractor.transform, tuple(extractor.transform(data.public_x[:1]).shape[1:])


def frozen(folder: Path, file: str, device: str) -> tuple[Callable[[Inputs], Inputs], tuple[int, ...]]:
    """What turns records into the coordinates that a student of frozen features took, and their shape.

    Parameters
    ----------
    file
        Of the space, in the folder.

    Raises
    ------
    DataError
        If the run's public records are not at hand, or the file is damaged.
    """
    arrays = read_arrays(folder / file)
    try:
        space = Space.of(arrays)
    except KeyError as error:
        raise DataError(f"{folder / file}: lacks {error}; it was cut short or edited") from error
    settings, data = _run_of(folder, "of the run's extractor")
    assert isinstance(settings, FrozenSettings)
    extractor = fitted_extractor(settings, data, device, arrays.get("network"))
    return lambda x: space.transform(extractor.transform(x)), (space.embedding.dimension,)


def _run_of(folder: Path, features: str) -> tuple[CommonSettings, FederatedData]:
    """A run's settings and data, if its public records are at hand."""
    run = RunFolder.read(folder)
    method = get_method(run.method)
    settings = layers.resolve(method.name, settings_types(method), recorded=run.settings)
    data = federated_data(settings)
    told = load_result(folder)["data"]["fingerprint"]
    if data.public_fingerprint != told:
        raise DataError(
            f"{folder}: the model learned from the features {features}, fitted on public records with the fingerprint "
            f"{told}, but those at hand have {data.public_fingerprint}; put the run's public records in their place"
        )
    return settings, data
