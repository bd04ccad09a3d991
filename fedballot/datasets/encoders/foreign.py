"""Encoders that other packages make: a torch module of images, or an object with ``encode``."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import numpy as np
import torch

from fedballot.core.errors import SettingsError
from fedballot.datasets.encoders.encoder import Encoder, Vector
from fedballot.datasets.encoders.module import Preprocessing, of_module, weights_digest


def made(name: str, make: Any, parameters: Mapping[str, Any]) -> Encoder:
    """The encoder that a function or class makes, called with the parameters.

    A torch module gets float32 images (1, 3, h, w) in [0, 1]. An object with ``encode`` gets a list of one text and
    returns (1, d), as Sentence-Transformers do; its attribute ``digest``, or else its weights, tell it from others.

    Raises
    ------
    SettingsError
        If that fails, or what it makes is neither.
    """
    if not callable(make):
        raise SettingsError(f"encoder {name!r} is of type {type(make).__name__}; expected a function or class")
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)  # weights that it draws must be the same everywhere
            thing = make(**parameters)
    except Exception as error:  # foreign code: whatever it raises, the setting names it
        raise SettingsError(f"encoder {name!r} cannot be built: {type(error).__name__}: {error}") from error
    versions = {"torch": version("torch")}
    if not hasattr(thing, "encode"):
        if not isinstance(thing, torch.nn.Module):
            raise SettingsError(
                f"encoder {name!r} is a {type(thing).__name__}; expected a torch module of images, or an object with "
                "encode(texts)"
            )
        content = [type(thing).__name__, weights_digest(thing).hex()]
        return of_module(name, content, versions, lambda: (thing, Preprocessing()))
    told = getattr(thing, "digest", "")
    if not told and not isinstance(thing, torch.nn.Module):
        raise SettingsError(
            f"encoder {name!r}: nothing tells its weights from others; give the object an attribute digest, a text"
        )
    own = str(told).encode() if told else weights_digest(thing.eval())
    digest = hashlib.sha256(type(thing).__name__.encode() + own).hexdigest()

    def one(text: str) -> Vector:
        with torch.inference_mode():
            found: Vector = np.asarray(thing.encode([text]), dtype=np.float32)[0]
        return found

    return Encoder(name, "texts", f"sha256:{digest}", versions, one)
