"""The steps of feature extractors by name, and how a chain of them is written: ``hog+pca+l2``.

A package adds a first step by an entry point of the group ``fedballot.extractors``, see ``fedballot/core/plugins.py``.
"""

from __future__ import annotations

import importlib.util
from typing import Any

from fedballot.core import plugins
from fedballot.core.errors import SettingsError, did_you_mean
from fedballot.core.words import split_outside
from fedballot.datasets import features
from fedballot.datasets.encoders.encoder import check_encoder, is_encoder
from fedballot.learners.plain_steps import (
    Encoded,
    Hellinger,
    Pca,
    Plain,
    Standardise,
    Step,
    StepInfo,
    StepOptions,
    flat,
)

GROUP = "fedballot.extractors"
AUTO = "auto"
SIMCLR = "simclr-"


def _contrastive(options: StepOptions) -> Step:
    need_torch(options.name)
    from fedballot.learners.network_steps import Contrastive

    return Contrastive(options)


STEPS: dict[str, StepInfo] = {
    AUTO: StepInfo(
        "none for images, standardise for vectors",
        lambda options: STEPS["none" if len(options.input_shape) > 1 else "standardise"].make(options),
    ),
    "none": StepInfo(
        "pixels scaled to [0, 1]; vectors (precomputed features) as they are", lambda options: Plain(flat)
    ),
    "deskew": StepInfo(
        "grey images sheared upright and centred, for digits",
        lambda options: Plain(features.deskew),
        "grey images (h, w)",
    ),
    "hog": StepInfo(
        "histograms of oriented gradients of images", lambda options: Plain(features.hog, dear=True), "images"
    ),
    "hellinger": StepInfo(
        "square roots of rows scaled to sum 1, for counts such as bags of words", lambda options: Hellinger()
    ),
    "standardise": StepInfo(
        "each column less its public mean, over its public standard deviation", lambda options: Standardise()
    ),
    "pca": StepInfo("principal components of the public pool", lambda options: Pca(options.components)),
    "l2": StepInfo("rows scaled to norm 1", lambda options: Plain(lambda x: features.l2_normalised(flat(x)))),
    "simclr-resnet8": StepInfo(
        "ResNet-8 trained on the public images by contrast, without labels", _contrastive, "images"
    ),
    "simclr-resnet8-gn": StepInfo("the same with group norm", _contrastive, "images"),
    "simclr-shufflenet-v2": StepInfo("the same with ShuffleNet-V2", _contrastive, "images"),
    "simclr-mobilenet-v2": StepInfo("the same with MobileNet-V2", _contrastive, "images"),
}
"""Steps by name; what another package has works as a first step as well."""


def get_step(name: str) -> StepInfo:
    """The step of this name: ours, one that a package adds, or the one at ``package.module:NAME``.

    Raises
    ------
    SettingsError
        If there is none, or it is nothing that makes a step.
    """
    if name in STEPS:
        return STEPS[name]
    if is_encoder(name):
        return StepInfo(name, lambda options: Encoded(name, options))
    target: Any = plugins.get(name, STEPS, GROUP)
    if not callable(target):
        raise SettingsError(
            f"extractor {name!r} is of type {type(target).__name__}; expected a function that returns a torch module, "
            "or a class with transform"
        )
    from fedballot.learners import network_steps

    if hasattr(target, "transform"):
        return StepInfo(name, lambda options: network_steps.transformer(target, options))
    need_torch(name)
    return StepInfo(name, lambda options: network_steps.module(target, options))


def split_steps(name: str) -> tuple[str, ...]:
    """The steps of an extractor's name; nothing is imported.

    Raises
    ------
    SettingsError
        For a step that does not exist, with the nearest one.

    Examples
    --------
    >>> split_steps("hog + pca")
    ('hog', 'pca')
    """
    steps = tuple(part.strip() for part in split_outside(name, "+"))
    encoder = steps[0] not in STEPS and is_encoder(steps[0])
    if encoder:
        check_encoder(steps[0])
    foreign = encoder or ":" in steps[0] or (steps[0] not in STEPS and plugins.find(steps[0], GROUP) is not None)
    for step in steps[1:] if foreign else steps:
        if step not in STEPS:
            names = [*STEPS, *plugins.installed(GROUP, STEPS)]
            raise SettingsError(
                f"unknown extractor step {step!r}{did_you_mean(step, names) or '.'} Known: {', '.join(names)}, joined "
                "by '+', or first 'package.module:NAME', which makes a torch module or a transformer, or an encoder"
            )
    return steps


def chain_name(name: str) -> str:
    """The one way to write an extractor's name: its steps joined by ``+``, without blanks.

    Raises
    ------
    SettingsError
        For a step that does not exist.
    """
    return "+".join(split_steps(name))


def takes_network(name: str) -> bool:
    """Whether the extractor's first step is a network whose weights another machine may have trained."""
    return split_steps(name)[0].startswith(SIMCLR)


def needs_torch(name: str) -> bool:
    """Whether processes that build this extractor may import torch; imports what another package has.

    Raises
    ------
    SettingsError
        For a step that does not exist.
    """
    first = split_steps(name)[0]
    if first in STEPS or is_encoder(first):
        return first not in STEPS or first.startswith(SIMCLR)
    return not hasattr(plugins.get(first, STEPS, GROUP), "transform")


def need_torch(name: str) -> None:
    """Refuse a step that needs torch where there is none."""
    if importlib.util.find_spec("torch") is None:
        without = ", ".join(step for step in STEPS if not step.startswith(SIMCLR))
        raise SettingsError(
            f"extractor {name!r} needs torch: pip install 'fedballot[torch]'. Without torch these work: {without}"
        )
