"""A pretrained network of images that is trained on: an encoder's, with a new last layer."""

from __future__ import annotations

from copy import deepcopy
from typing import Self

import torch
from torch import Tensor, nn

from fedballot.core.errors import SettingsError
from fedballot.datasets.encoders.module import Preprocessing
from fedballot.datasets.encoders.sources import make_encoder

DROPOUT = 0.2


class FineTuned(nn.Module):
    """Images (n, channels, h, w) in [0, 1] to logits (n, classes).

    The network keeps its evaluation mode while it is trained: its normalisation goes on by the statistics that it came
    with, which a few small batches would make worse. The last layer starts at zero. While it learns classes, images
    are mixed in pairs: large for so few of them, it would learn their wrong labels by heart.

    Parameters
    ----------
    net : images as ``prepare`` makes them (n, 3, size, size) to vectors (n, width).
    mirror : whether it answers by the mean vector of an image and its mirror image.
    """

    mixup_alpha = 0.5
    predict_batch = 64  # of maps at full size, so many fit

    def __init__(self, net: nn.Module, prepare: Preprocessing, width: int, n_classes: int, *, mirror: bool) -> None:
        super().__init__()
        self.net, self.prepare, self.mirror = net.float(), prepare, mirror
        self.dropout = nn.Dropout(DROPOUT)
        self.head = nn.Linear(width, n_classes)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def train(self, mode: bool = True) -> Self:
        """As any module's, but for the network within."""
        super().train(mode)
        self.net.eval()
        return self

    def forward(self, x: Tensor) -> Tensor:
        """Logits of images."""
        images = self.prepare.batch(x).contiguous(memory_format=torch.channels_last)  # on a CPU twice as fast
        vectors = self.net(images).flatten(1)
        if self.mirror and not self.training:
            vectors = (vectors + self.net(images.flip(-1)).flatten(1)) / 2
        logits: Tensor = self.head(self.dropout(vectors))
        return logits


def build(name: str, n_classes: int, *, mirror: bool = False) -> FineTuned:
    """The network of the encoder of this name, with an output for each class.

    Raises
    ------
    SettingsError
        If there is none, it is not of images, or its weights are not on this machine.
    """
    encoder = make_encoder(name)
    if encoder.network is None:
        raise SettingsError(
            f"encoder {name!r} of {encoder.takes} has no network that can be trained; an encoder of images has, such "
            "as efficientnet-lite0, and hf:FOLDER learns from texts"
        )
    made, prepare = encoder.network()
    net = deepcopy(made)  # a package's may hand out the one that makes features
    side = prepare.size or 64
    with torch.inference_mode():
        width = net.eval()(torch.zeros(1, 3, side, side)).flatten(1).shape[1]
    return FineTuned(net, prepare, width, n_classes, mirror=mirror)
