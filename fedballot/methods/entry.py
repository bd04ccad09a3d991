"""What is wrong with a method's entry, seen from its classes alone."""

from __future__ import annotations

import dataclasses
import re

from fedballot.clients.base import BallotClient
from fedballot.core.errors import SettingsError
from fedballot.core.setting import types_of
from fedballot.methods.api import Method
from fedballot.settings.parts import CommonSettings
from fedballot.strategies.base import BallotStrategy

NAME = r"[a-z0-9]+(-[a-z0-9]+)*"


def entry_fault(method: Method) -> str:
    """The first fault, with what to do; empty: there is none."""
    if not re.fullmatch(NAME, method.name):
        return f"the name {method.name!r} is hard to type and to quote. To mend it, use a-z, 0-9 and single hyphens"
    try:
        sides = {"client": method.client_class, "strategy": method.strategy_class}
    except SettingsError as error:
        return str(error)
    bases = {"settings": CommonSettings, "client": BallotClient, "strategy": BallotStrategy}
    for role, cls in {"settings": method.settings, **sides}.items():
        base = bases[role]
        if not (isinstance(cls, type) and issubclass(cls, base)):
            name = getattr(cls, "__name__", repr(cls))
            return f"{role}={name} is no {base.__name__}. To mend it, name the class that extends it"
    kind = method.settings
    if "__dataclass_fields__" not in vars(kind):
        return f"{kind.__name__} is no dataclass, without settings of its own. To mend it, add @dataclass(frozen=True)"
    for field in dataclasses.fields(kind):
        if "declaration" not in field.metadata:
            return f'{field.name} has no declaration. To mend it, write setting(DEFAULT, "what it does") or again()'
    common, types = types_of(CommonSettings), types_of(kind)
    for name in common:
        if types[name] != common[name]:
            what = f"{name} is a setting of every method, and of another type there"
            return f"{what}. To mend it, give yours another name"
    return ""
