"""Tiny federations of each size, ready to be copied: sites with tens of digits, and settings that take milliseconds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from fedballot.datasets.fingerprint import fingerprint
from fedballot.deploy.template import init_site
from tests.deploy.harness import edit

PUBLIC, OWN, CLASSES = 60, 20, 3
SIZES = (3, 3, 3, 3, 4, 4, 5, 6)
METHODS = ("pate-fl", "pate-fl", "fedmd-ldp")  # masks know one round only: no method of many has them
USUAL = {
    "public_size": 40,
    "test_size": 20,
    "queries": 6,
    "epsilon": 40.0,
    "vote_fraction": 1.0,
    "student": "argmax",
    "client_models": "logistic-regression",
    "server_model": "logistic-regression",
    "secure_aggregation": True,
    "rounds": 2,
    "share": "logits",
    "pretrain_epochs": 0,
    "evaluate_clients": False,
    "abstain": False,
}


def write_world(folder: Path) -> None:
    """Public digits of three kinds, and folders of sites for federations of each size, to be copied."""
    digits = load_digits(n_class=CLASSES)
    order = np.random.default_rng(0).permutation(len(digits.target))
    x, y = digits.images.astype(np.uint8)[order], digits.target[order]
    np.savez(folder / "public.npz", x=x[:PUBLIC], y=y[:PUBLIC])
    for number in range(max(SIZES)):
        rows = slice(PUBLIC + OWN * number, PUBLIC + OWN * (number + 1))
        np.savez(folder / f"own{number}.npz", x=x[rows], y=y[rows])
    for size in set(SIZES):
        for number in range(size):
            place = folder / "sites" / str(size) / str(number)
            init_site(place, number=number, sites=size, server="localhost:1")
            edit(
                place / "site.toml",
                private=str(folder / f"own{number}.npz"),
                public=str(folder / "public.npz"),
                public_fingerprint=fingerprint(x[:PUBLIC]),
                model="logistic-regression",
                methods=["pate-fl", "fedmd-ldp"],
                largest_epsilon=200.0,
                epsilon=500.0,
                least_clients=1,
            )
