"""Federated learning by sharing predictions on public data, under differential privacy, on Flower."""

__version__ = "0.1.0"
