"""A text classifier of Hugging Face's, from a folder on this machine: ``hf:/models/bert``; nothing is downloaded."""

from __future__ import annotations

import os
from typing import Any

from torch import Tensor, nn

from fedballot.core.errors import SettingsError
from fedballot.core.files import with_home
from fedballot.datasets.schema.texts import texts_of

MAX_TOKENS = 256
_NEEDED = "a folder with config.json, model.safetensors and the tokenizer's files, as save_pretrained writes them"


def build(path: str, n_classes: int, max_tokens: int = MAX_TOKENS) -> nn.Module:
    """The network of a folder, with an output for each class.

    Parameters
    ----------
    path : the folder.
    n_classes : outputs; where the folder's model has another number, its last layer starts anew.
    max_tokens : tokens of a text that are read.

    Raises
    ------
    SettingsError
        If transformers is missing, or the folder holds no such model.
    """
    try:
        import transformers
    except ImportError as error:
        raise SettingsError(f"learner 'hf:{path}' needs transformers: pip install 'fedballot[text]'") from error
    folder = with_home(path)
    if not (folder / "config.json").is_file():
        raise SettingsError(f"learner 'hf:{path}': {folder} is no model; expected {_NEEDED}")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # threads that would not survive a fork
    transformers.utils.logging.disable_progress_bar()  # of the weights, at each of many clients
    here: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(str(folder), **here)
        model = transformers.AutoModelForSequenceClassification.from_pretrained(
            str(folder), num_labels=n_classes, ignore_mismatched_sizes=True, use_safetensors=True, **here
        )
    except Exception as error:  # whatever the library raises
        words = " ".join(str(error).split())[:300]
        raise SettingsError(f"learner 'hf:{path}' cannot be read ({words}); expected {_NEEDED}") from error
    if tokenizer.pad_token is None:
        raise SettingsError(
            f"learner 'hf:{path}': its tokenizer has no token for padding; set pad_token and save it again"
        )
    model.config.pad_token_id = tokenizer.pad_token_id
    return TextClassifier(tokenizer, model.float(), max_tokens)


class TextClassifier(nn.Module):
    """Rows of bytes (n, width) to logits (n, classes)."""

    def __init__(self, tokenizer: Any, model: nn.Module, max_tokens: int) -> None:
        super().__init__()
        self.tokenizer, self.model, self.max_tokens = tokenizer, model, max_tokens

    def forward(self, x: Tensor) -> Tensor:
        """Logits of texts."""
        texts = texts_of(x.detach().cpu().numpy())
        tokens = self.tokenizer(
            texts, padding=True, truncation=True, max_length=self.max_tokens, return_tensors="pt"
        ).to(x.device)
        logits: Tensor = self.model(**tokens).logits
        return logits
