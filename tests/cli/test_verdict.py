"""What `fedballot try` says of its figures."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fedballot.cli.verdict import verdict
from tests.cli.test_first import call  # noqa: F401

CONFIG = Path("first") / "settings.toml"


def result(accuracy: float, balanced: float, recall: tuple[float, float] = (1.0, 0.5), epsilon: object = 4.3) -> dict:
    """The parts of a result that are read, with figures of the server and of clients."""
    measures = {"balanced_accuracy": balanced, "recall_per_class": recall, "support": [118, 2]}
    return {
        "classes": ["common", "rare"],
        "settings": {"epsilon": epsilon},
        "metrics": {
            "server_accuracy": accuracy,
            "server_measures": measures,
            "client_accuracy": {"mean": accuracy},
            "client_measures": {"balanced_accuracy": {"mean": balanced}},
        },
    }


def plain(sentences: list[str]) -> list[str]:
    """Sentences with a common space before the sign for percent."""
    return [words.replace("\u202f", " ") for words in sentences]


GOOD = result(0.99, 0.75)


def test_nothing_is_said_where_all_is_well():
    assert verdict(GOOD, result(0.95, 0.7), GOOD, CONFIG) == []
    assert verdict(result(0.945, 0.695), result(0.95, 0.7), GOOD, CONFIG) == []  # may be chance


@pytest.mark.parametrize(("epsilon", "helps"), [(4.3, "more clients or a larger ε;"), ("inf", "more clients;")])
def test_a_server_worse_than_its_clients(epsilon, helps):
    (words,) = plain(verdict(result(0.8, 0.7, epsilon=epsilon), result(0.95, 0.7), GOOD, CONFIG))
    assert "worse than a client alone (80.0 % against 95.0 % accuracy)" in words and helps in words
    assert words.endswith(f"fedballot poll --config {CONFIG}")
    (words,) = plain(verdict(result(0.95, 0.6), result(0.95, 0.7), GOOD, CONFIG))
    assert "(60.0 % against 70.0 % balanced accuracy)" in words


def test_whether_pooled_records_would_find_the_class():
    blind = result(0.98, 0.75, (1.0, 0.0))
    assert "With all records pooled it does: more clients" in verdict(blind, GOOD, GOOD, CONFIG)[0]
    assert "does not find 'rare' either: more records of it" in verdict(blind, GOOD, blind, CONFIG)[0]


@pytest.mark.slow
def test_a_class_that_nobody_finds_is_named(call, tmp_path):  # noqa: F811
    numbers = np.random.default_rng(0).normal(size=(600, 3)).round(3)
    labels = ["rare" if row % 100 == 7 else "common" for row in range(600)]
    lines = [",".join([*map(str, row), label]) for row, label in zip(numbers, labels, strict=True)]
    (tmp_path / "imb.csv").write_text("\n".join(["a,b,c,label", *lines]))
    code, out, error = call("try", "imb.csv", "--quiet", "--out", "first")
    assert code == 0, error
    assert "The server never finds 'rare'" in out and "does not find 'rare' either" in out
    assert "A client alone does not tell the classes apart" in out
    # the command that the conclusion may name reads the same data
    code, _, error = call("poll", "--config", "first/settings.toml", "--out", "poll", "--quiet")
    assert code == 0, error
    asked = json.loads((tmp_path / "poll" / "result.json").read_text())
    assert asked["classes"] == ["common", "rare"] and asked["settings"]["clients"] == 12
