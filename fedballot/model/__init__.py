"""The model that a run has made, as a product: load it, predict with it, hand it on with its card."""

from fedballot.model.loaded import Model, load

__all__ = ["Model", "load"]
