"""Writes docs/settings.md from the declarations of all methods:  python docs/write_settings.py"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedballot.core.setting import Settings, declaration, meaning, words_of
from fedballot.methods.api import Method
from fedballot.methods.registry import all_methods

PAGE = Path(__file__).with_name("settings.md")
READERS = {"client": "clients", "server": "server", "machine": "each machine", "site": "each site"}
HEAD = """# Settings

<!-- Written by `python docs/write_settings.py` from the declarations in the code. -->

A method takes the settings that its clients, its server or their learners read. Any other name is an error that says
which methods have it. `--set NAME=VALUE` on the command line, a preset or a TOML file set them; under `flwr run` the
key `settings` of the run-config does, as in `settings="epsilon=1 rounds=3"`. Later ones win: defaults < preset < file <
`--set` or run-config. A file has settings for every method, and tables for single ones:

```toml
clients = 20

[pate-fl]
epsilon = 2.0
```

A preset's first part may name settings that a method lacks if another one has them; your own file may not.

*Read by* says who acts on a setting in a federation of sites: **clients** on what the server sets, within the limits of
each site's file ([deploy.md](deploy.md)); the **server** alone, or a simulation; **each machine** for itself, so that
it may change when a run is resumed; **each site** by its own file.
"""

INTRODUCTION = """What several methods have. Where a setting stands in two parts of a method, the later one counts; what
stands in the method's own section comes last.
"""


def page() -> str:
    """The page as it should be."""
    methods = list(all_methods().values())
    users: dict[type[Settings], list[Method]] = {}
    for method in methods:
        for kind in declaring(method.settings):
            users.setdefault(kind, []).append(method)
    lines = [HEAD, "## Parts\n", INTRODUCTION]
    for kind, having in users.items():
        if len(having) > 1:
            names = "all methods" if len(having) == len(methods) else ", ".join(method.name for method in having)
            lines += [f"### {title(kind)}\n", f"`{kind.__name__}`: {names}.\n", *table(kind), ""]
    lines += ["## Methods\n"]
    for method in methods:
        kinds = list(declaring(method.settings))
        parts = [f"[{kind.__name__}](#{anchor(title(kind))})" for kind in kinds if len(users[kind]) > 1]
        lines += [
            f"### {method.name}\n",
            f"{method.summary[0].upper()}{method.summary[1:]}. Parts: {', '.join(parts)}.\n",
        ]
        for kind in kinds:
            if len(users[kind]) == 1:
                lines += [*table(kind), ""]
    return "\n".join(lines).rstrip() + "\n"


def declaring(kind: type[Settings]) -> Iterator[type[Settings]]:
    """The classes that declare a method's settings, the most general first."""
    for base in reversed(kind.__mro__):
        if any(name in vars(base) for name in vars(base).get("__dataclass_fields__", ())):
            yield base


def title(kind: type[Settings]) -> str:
    """The heading of a part: the first sentence of its docstring."""
    return str(kind.__doc__).partition("\n")[0].partition(";")[0].rstrip(".")


def anchor(heading: str) -> str:
    return "".join(c for c in heading.lower().replace(" ", "-") if c.isalnum() or c in "-_")


def table(kind: type[Settings]) -> list[str]:
    """A row for each setting that a class declares itself."""
    rows = ["| setting | default | allowed | read by | meaning |", "|---|---|---|---|---|"]
    own = [field for field in dataclasses.fields(kind) if field.name in vars(kind)]
    return rows + [f"| {' | '.join(row(kind, field))} |" for field in own]


def row(kind: type[Settings], field: dataclasses.Field[Any]) -> list[str]:
    declared = declaration(field)
    default, allowed = words_of(kind, field)
    cells = [f"`{field.name}`", f"`{default}`" if default else "", allowed, READERS[declared.reads], meaning(declared)]
    return [cell.replace("|", "\\|") for cell in cells]


if __name__ == "__main__":
    PAGE.write_text(page())
