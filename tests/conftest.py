"""What many tests share: small settings on real digits."""

from __future__ import annotations

import os

import pytest

os.environ["COLUMNS"] = "160"  # tables wrap alike wherever the tests run

from fedballot.clients.pate import PateSettings
from fedballot.settings import build

SMALL = {
    "dataset": "digits",
    "agents": 8,
    "private_size": 800,
    "public_size": 300,
    "test_size": 300,
    "client_models": "logistic-regression",
    "server_model": "logistic-regression",
    "workers": 2,
}


@pytest.fixture
def small() -> PateSettings:
    """Eight agents with 100 real 8x8 digits each, scikit-learn models, a budget at which it works."""
    return build(PateSettings, SMALL, {"epsilon": 20, "delta": 1e-3})
