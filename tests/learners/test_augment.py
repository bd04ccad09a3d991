"""Which changes of images each `augment` makes, and that images of one's own keep sides and orientation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedballot.core.errors import SettingsError
from fedballot.datasets.copies import public_copy
from fedballot.datasets.federation import build
from fedballot.datasets.spec import FederationSpec
from fedballot.learners.registry import make_learner

torch = pytest.importorskip("torch", reason="needs torch")

ACROSS, UP = np.zeros((16, 16), np.uint8), np.zeros((16, 16), np.uint8)
ACROSS[6:10, 9:14] = 255  # a spot on the right
UP[2:14, 7:9] = 255  # an upright bar


def augmented(image: np.ndarray, augment: str, n: int = 200) -> np.ndarray:
    from fedballot.learners.tensors import Tensors

    torch.manual_seed(0)
    tensors = Tensors(image.shape, "cpu", elastic=False, augment=augment)  # type: ignore[arg-type]
    return tensors.augmented(tensors.data(np.stack([image] * n))).numpy().mean(axis=1)


@pytest.mark.parametrize(("augment", "flips"), [("none", 0), ("shift", 0), ("flip", 1), ("usual", 1), ("rotate", 0)])
def test_only_a_flip_changes_sides(augment: str, flips: int) -> None:
    """Colour images were always mirrored: right on 0.57 instead of 1.00 where the side is the class."""
    images = augmented(np.stack([ACROSS] * 3, axis=2), augment)
    left = images[:, :, :8].sum(axis=(1, 2)) > images[:, :, 8:].sum(axis=(1, 2))
    assert 60 < left.sum() < 140 if flips else left.sum() == 0


@pytest.mark.parametrize(("augment", "turns"), [("none", 0), ("shift", 0), ("flip", 0), ("usual", 1), ("rotate", 1)])
def test_only_a_rotation_turns_grey_images(augment: str, turns: int) -> None:
    images = augmented(UP, augment)
    tilted = np.abs(images[:, 3:6].argmax(axis=2).mean(axis=1) - images[:, 10:13].argmax(axis=2).mean(axis=1)) > 0.9
    assert tilted.mean() > 0.2 if turns else not tilted.any()


def test_an_unknown_word_is_named() -> None:
    with pytest.raises(SettingsError, match="augment is 'spin', but must be one of usual"):
        make_learner(
            "cnn-small", n_classes=2, input_shape=(8, 8), seed=0, epochs=1, batch_size=1, lr=1.0,
            augment="spin",  # type: ignore[arg-type]
        )  # fmt: skip


def test_images_of_ones_own_keep_their_sides(tmp_path: Path) -> None:
    for row in range(20):
        for side, image in (("left", ACROSS[:, ::-1]), ("right", ACROSS)):
            path = tmp_path / "own" / side / f"{row}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.stack([image, image, image + row], axis=2).astype(np.uint8)).save(path)
    sizes = {"public_size": 10, "test_size": 10, "clients": 2}
    data = build(FederationSpec(str(tmp_path / "own"), **sizes))
    assert data.augment == "shift" and not data.mirror
    copies = [public_copy(data.public_x, np.arange(10), number, 0, mirror=data.mirror) for number in range(1, 5)]
    for copy in copies:
        right = copy[:, :, 8:].sum(axis=(1, 2, 3)) > copy[:, :, :8].sum(axis=(1, 2, 3))
        np.testing.assert_array_equal(right, data.public_y == 1)
    assert build(FederationSpec(str(tmp_path / "own"), augment="flip", **sizes)).mirror
    assert build(FederationSpec("digits", **sizes)).augment == "usual"
