"""How a learner or an encoder is written with its parameters: ``xgboost(max_depth=4, n_estimators=50)``."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from fedballot.core.errors import SettingsError


def read_name(text: str, what: str = "learner") -> tuple[str, dict[str, Any]]:
    """The name and the parameters of a learner; values are literals in Python's notation.

    Parameters
    ----------
    what
        As which an error speaks of it.

    Raises
    ------
    SettingsError
        If it is not written like that, or a parameter stands twice.

    Examples
    --------
    >>> read_name("mlp(hidden_layer_sizes=(50, 50), alpha=0.01)")
    ('mlp', {'hidden_layer_sizes': (50, 50), 'alpha': 0.01})
    """
    name, bracket, _ = (part.strip() for part in text.partition("("))
    if not bracket:
        return text.strip(), {}
    try:
        call = ast.parse("f" + text.strip()[text.strip().index("(") :], mode="eval").body
        if not isinstance(call, ast.Call) or call.args or not isinstance(call.func, ast.Name) or not name:
            raise ValueError("parameters have names")
        values = {str(word.arg): ast.literal_eval(word.value) for word in call.keywords if word.arg}
        if len(values) < len(call.keywords):
            raise ValueError("'**' is no parameter, and none stands twice")
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError) as error:
        raise SettingsError(
            f"{what} {text!r} cannot be read; expected NAME or NAME(parameter=value, ...), values as Python writes "
            f"them, such as xgboost(max_depth=4, learning_rate=0.1) or {name or 'mlp'}(early_stopping=True): {error}"
        ) from error
    return name, values


def write_name(name: str, parameters: Mapping[str, Any]) -> str:
    """The one way to write a learner, which :func:`read_name` reads.

    Raises
    ------
    SettingsError
        If a value has no notation, such as a date or infinity.

    Examples
    --------
    >>> write_name("xgboost", {"max_depth": 4})
    'xgboost(max_depth=4)'
    """
    if not parameters:
        return name
    text = f"{name}({', '.join(f'{key}={value!r}' for key, value in parameters.items())})"
    if read_name(text) != (name, dict(parameters)):
        raise SettingsError(f"learner {text!r} cannot be read back: give numbers, texts, lists or true and false")
    return text


def read_table(value: Any) -> str:
    """A learner as one text, out of such a text or a TOML table with ``name`` and ``parameters``.

    Raises
    ------
    SettingsError
        If it is neither, or cannot be read.

    Examples
    --------
    >>> read_table({"name": "xgboost", "parameters": {"max_depth": 4}})
    'xgboost(max_depth=4)'
    """
    table = value if isinstance(value, Mapping) else {"name": value}
    name, parameters = table.get("name"), table.get("parameters", {})
    strange = set(table) - {"name", "parameters"}
    if strange or not isinstance(name, str) or not name or not isinstance(parameters, Mapping):
        raise SettingsError(
            f"{value!r} is no learner; expected a text, or a table with name and parameters, such as "
            'name = "xgboost" and parameters = { max_depth = 4 }'
        )
    own, further = read_name(name)
    return write_name(own, {**further, **parameters})
