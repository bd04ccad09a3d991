"""Functions of the user's that build a model: each gets what its signature names of the data's sizes."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

from fedballot.core.errors import SettingsError, did_you_mean


def sizes(n_classes: int, input_shape: tuple[int, ...]) -> dict[str, Any]:
    """The words that a factory may take, for these data."""
    words: dict[str, Any] = {"n_classes": n_classes, "num_classes": n_classes, "input_shape": input_shape}
    if len(input_shape) == 1:
        return words | {"n_features": input_shape[0], "in_features": input_shape[0]}
    channels = input_shape[2] if len(input_shape) == 3 else 1
    return words | {
        "in_chans": channels,
        "in_channels": channels,
        "img_size": input_shape[:2],
        "in_features": math.prod(input_shape),
    }


def call(
    name: str,
    factory: Callable[..., Any],
    parameters: Mapping[str, Any],
    *,
    n_classes: int,
    input_shape: tuple[int, ...],
) -> Any:
    """What the factory returns, called with ``parameters`` and what it names of :func:`sizes`.

    One that takes any keyword (``**kwargs``) and no such name gets ``num_classes`` and ``in_chans``, as timm's do, or
    ``num_classes`` alone, as torchvision's do.

    Raises
    ------
    SettingsError
        If it does not know a parameter, or fails.
    """
    every = sizes(n_classes, input_shape)
    named, open_ended = names_of(factory)
    if (strange := next((key for key in parameters if key not in named), None)) and not open_ended:
        raise unknown_parameter(name, strange, named)
    chosen = {key: value for key, value in every.items() if key in named}
    attempts = [{**chosen, **parameters}]
    if open_ended and not {"n_classes", "num_classes"} & {*named, *parameters}:
        one = {**chosen, "num_classes": n_classes, **parameters}
        attempts = [{**one, "in_chans": every["in_chans"], **parameters}, one] if "in_chans" in every else [one]
    for number, words in enumerate(attempts, 1):
        try:
            return factory(**words)
        except Exception as error:  # foreign code: whatever it raises, the setting names it
            if number == len(attempts) or not (isinstance(error, TypeError) and "in_chans" in str(error)):
                raise SettingsError(f"learner {name!r} cannot be built: {type(error).__name__}: {error}") from error
    raise AssertionError("there is always an attempt")


def names_of(target: Callable[..., Any]) -> tuple[list[str], bool]:
    """The parameters that a class or function names, and whether it takes others too."""
    try:
        parameters = inspect.signature(target).parameters.values()
    except (TypeError, ValueError):  # a builtin that says nothing
        return [], True
    named = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    return named, any(p.kind is p.VAR_KEYWORD for p in parameters)


def unknown_parameter(name: str, parameter: str, allowed: list[str]) -> SettingsError:
    """The error for a parameter that a model does not have."""
    near = did_you_mean(parameter, allowed)
    words = f"Allowed: {', '.join(sorted(allowed))}" if allowed else "It takes none"
    return SettingsError(f"learner {name!r} has no parameter {parameter!r}{near or '.'} {words}")


def uses_torch(factory: Callable[..., Any], parameters: Mapping[str, Any]) -> bool:
    """Whether what the factory returns may be torch's: its module names torch, or it does not build without."""
    mine = inspect.unwrap(factory)
    words = getattr(mine, "__globals__", vars(inspect.getmodule(mine) or object))
    roots = {str(getattr(value, "__name__", "")).partition(".")[0] for value in words.values()}
    if roots & {"torch", "torchvision"}:
        return True
    try:
        return not hasattr(call("", factory, parameters, n_classes=2, input_shape=(2,)), "fit")
    except SettingsError:
        return True
