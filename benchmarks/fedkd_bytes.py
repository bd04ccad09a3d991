"""What FedKD's quantised answers hold in bits per logit, and what coders make of them.

    FEDBALLOT_DATA=DIR python benchmarks/fedkd_bytes.py

Answers of the clients of `fedkd_rows.py`'s digits, seed 0. The range coder (rANS, a static table for each class, whose
bytes are counted at 2 per level) is measured where the package `constriction` is installed.
"""

from __future__ import annotations

import bz2
import lzma
import tempfile
import zlib
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt
from fedkd_rows import DIGITS

from fedballot.clients.fedkd import FedkdClient
from fedballot.clients.workspace import Workspace
from fedballot.core.folders import ClientFolder
from fedballot.methods.registry import settings_types
from fedballot.privacy.mechanisms.quantise import Quantiser
from fedballot.runs.engine import federated_data, prepare_worker
from fedballot.settings.layers import parse_assignments, resolve
from fedballot.wire.coded import CodedLabels

Levels = npt.NDArray[np.unsignedinteger]
ANSWERS = 5
LZMA = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "lc": 0, "lp": 0, "pb": 0}]


def entropy(levels: Levels) -> float:
    """Bytes of levels at the entropy of their frequencies."""
    shares = np.bincount(levels.ravel()) / levels.size
    return float(-(shares[shares > 0] * np.log2(shares[shares > 0])).sum() * levels.size / 8)


def rans(levels: Levels) -> float:
    """Bytes by rANS, with a table for each class."""
    import constriction

    total, kinds = 0, max(2, int(levels.max()) + 1)
    for column in levels.T:
        shares = np.bincount(column, minlength=kinds) / column.size
        coder = constriction.stream.stack.AnsCoder()
        coder.encode_reverse(column.astype(np.int32), constriction.stream.model.Categorical(shares, perfect=False))
        total += coder.get_compressed().nbytes + 2 * kinds
    return float(total)


def deflate(levels: Levels, strategy: int) -> int:
    """Bytes by DEFLATE."""
    coder = zlib.compressobj(9, zlib.DEFLATED, -15, 9, strategy)
    return len(coder.compress(levels.tobytes()) + coder.flush())


CODERS: dict[str, Callable[[Levels], float]] = {
    "entropy": entropy,
    "entropy by class": lambda levels: sum(entropy(column) for column in levels.T),
    "rANS by class": rans,
    "bzip2": lambda levels: len(bz2.compress(levels.tobytes())),
    "LZMA": lambda levels: len(lzma.compress(levels.tobytes(), format=lzma.FORMAT_RAW, filters=LZMA)),
    "DEFLATE": lambda levels: deflate(levels, zlib.Z_DEFAULT_STRATEGY),
    "Huffman": lambda levels: deflate(levels, zlib.Z_HUFFMAN_ONLY),
}


def answers(alpha: str) -> list[npt.NDArray[np.float64]]:
    """Logits (Q, C) of each client."""
    words = parse_assignments(f"{DIGITS} alpha={alpha} answers={ANSWERS} seed=0 evaluate_clients=False".split())
    settings = resolve("fedkd", settings_types(), preset="fedkd-mnist", values=words)
    data, rows = federated_data(settings), np.arange(settings.public_size)
    with tempfile.TemporaryDirectory() as folder:
        places = [ClientFolder(Path(folder) / f"{number}") for number in range(settings.clients)]
        clients = [FedkdClient(Workspace(k, settings, data, place, "cpu")) for k, place in enumerate(places)]
        return [client.logits(rows) for client in clients]


def main() -> None:
    """Print the table in Markdown."""
    prepare_worker(with_torch=True)
    if find_spec("constriction") is None:
        CODERS.pop("rANS by class")
    print("| α | S | answers | packed | " + " | ".join(CODERS) + " | sent |\n" + "|---" * (len(CODERS) + 5) + "|")
    for alpha in ("1", "0.1"):
        logits = answers(alpha)
        for count in (1, ANSWERS):
            part = [each[: len(each) * count // ANSWERS] for each in logits]
            for levels in (4, 16, 200):
                sent = [Quantiser(float(np.abs(each).max()), levels).encode(each) for each in part]
                size = sum(each.size for each in sent) / 8
                codecs = [CodedLabels(each.size, levels) for each in sent]
                made = [sum(coder(each) for each in sent) for coder in CODERS.values()]
                made.append(sum(codec.pack(each.ravel())[0].nbytes for codec, each in zip(codecs, sent, strict=True)))
                cells = " | ".join(f"{bits / size:.2f}" for bits in made)
                print(f"| {alpha} | {levels} | {count} | {codecs[0].packed_size / sent[0].size * 8:.2f} | {cells} |")


if __name__ == "__main__":
    main()
