"""From a template and its values to one self-contained page on disk."""

import base64
import hashlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from fedballot import __version__
from fedballot.core import numbers
from fedballot.core.files import write_atomic
from fedballot.report.palette import DARK, LIGHT


def write_page(template: str, values: Mapping[str, Any], path: Path, script: str = "") -> Path:
    """Render a template of this package and put it at `path` atomically.

    Parameters
    ----------
    template : str
        Name of a template beside this file.
    values : mapping
        What the template names; a name it does not find is an error, never an empty place.
    path : Path
        The page; replaced if it exists.
    script : str
        The only JavaScript that the page may run, as its policy says by a hash.

    Returns
    -------
    Path
        `path`.
    """
    page = render_page(template, values, script)
    write_atomic(path, lambda stream: stream.write(page.encode("utf-8")))
    return path


def render_page(template: str, values: Mapping[str, Any], script: str = "") -> str:
    """Render a template of this package; a name that it does not find is an error."""
    digest = f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"
    shared = {"light": LIGHT, "dark": DARK, "version": __version__, "script": script, "script_hash": digest}
    return _environment().get_template(template).render(**shared, **values)


@lru_cache(maxsize=1)
def _environment() -> Environment:
    """Jinja's environment, which keeps compiled templates."""
    environment = Environment(
        loader=PackageLoader("fedballot", "report"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for formatter in (
        numbers.percent,
        numbers.count,
        numbers.size,
        numbers.seconds,
        numbers.epsilon,
        numbers.delta,
        numbers.votes,
        numbers.scalar,
    ):
        environment.filters[formatter.__name__] = formatter
    return environment


def script(name: str) -> str:
    """The text of a script beside this file."""
    return (Path(__file__).parent / name).read_text(encoding="utf-8")
