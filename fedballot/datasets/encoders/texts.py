"""Encoders of texts: a transformer in a folder, its tokens' vectors averaged, scaled to norm 1."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from fedballot.core.errors import SettingsError
from fedballot.core.files import sha256
from fedballot.datasets.encoders.encoder import Encoder, Vector, facts_in

_READ = ("config.json", "model.safetensors", "tokenizer.json", "vocab.txt", "tokenizer_config.json")


def read(name: str, folder: Path, parameters: Mapping[str, Any], *, weights: str = "") -> Encoder:
    """The encoder in a folder, as ``save_pretrained`` of model and tokenizer, or Sentence-Transformers, writes it.

    Parameters
    ----------
    parameters
        ``max_tokens``, of a text, that are read.
    weights
        SHA-256 that ``model.safetensors`` must have; empty: any.

    Raises
    ------
    SettingsError
        If it holds other weights.
    """
    digests = {file: sha256(folder / file) for file in _READ if (folder / file).is_file()}
    if weights and digests.get("model.safetensors") != weights:
        raise SettingsError(
            f"encoder {name!r}: {folder / 'model.safetensors'} has SHA-256 {digests.get('model.safetensors')}; "
            f"expected {weights}, which the model's authors publish: its package brings other weights, so do not use it"
        )
    first = _first_token(name, folder)
    config = facts_in(name, folder / "config.json")
    most = min(parameters["max_tokens"], int(config.get("max_position_embeddings", 1 << 30)))
    model: list[Any] = []

    def one(text: str) -> Vector:
        import torch

        if not model:
            model.extend(_loaded(name, folder))
        tokens = model[0](text, truncation=True, max_length=most, return_tensors="pt")
        with torch.inference_mode():
            states = model[1](**tokens).last_hidden_state[0]
            vector = states[0] if first else states.mean(dim=0)
        found: Vector = torch.nn.functional.normalize(vector, dim=0).numpy().astype(np.float32)
        return found

    content = json.dumps(["text", digests, first, most], sort_keys=True)
    digest = f"sha256:{hashlib.sha256(content.encode()).hexdigest()}"
    versions = {package: version(package) for package in ("torch", "transformers")}
    return Encoder(name, "texts", digest, versions, one)


def _loaded(name: str, folder: Path) -> tuple[Any, Any]:
    """Tokenizer and model, at the first text: to import transformers takes seconds, and the cache needs neither."""
    import transformers

    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # threads that would not survive a fork
    transformers.utils.logging.disable_progress_bar()
    here: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder), **here)
        return tokenizer, transformers.AutoModel.from_pretrained(
            str(folder), use_safetensors=True, **here
        ).float().eval()
    except Exception as error:  # whatever the library raises
        words = " ".join(str(error).split())[:300]
        raise SettingsError(f"encoder {name!r} cannot be read from {folder} ({words})") from error


def _first_token(name: str, folder: Path) -> bool:
    """Whether Sentence-Transformers' file says that the first token stands for the text; else it is the mean."""
    file = folder / "1_Pooling" / "config.json"
    return file.is_file() and bool(facts_in(name, file).get("pooling_mode_cls_token"))
