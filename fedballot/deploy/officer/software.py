"""What is installed beside fedballot, as a software bill of materials (CycloneDX 1.6, JSON)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

from fedballot.core.errors import SettingsError

FILE = "sbom.cdx.json"
LONGEST_LICENCE = 100  # characters; some packages put the licence's whole text where its name belongs
CLASSIFIER = "License :: OSI Approved :: "


@dataclass(frozen=True)
class Installed:
    """A distribution of this environment.

    Attributes
    ----------
    licence : as it says itself; may be empty.
    needs : names of what it always needs, without its extras.
    """

    name: str
    version: str
    licence: str
    needs: tuple[str, ...] = ()


def installed() -> list[Installed]:
    """All distributions of this environment, by name, each once: the one that Python would import."""
    by_name: dict[str, Installed] = {}
    for one in distributions():
        name = str(one.metadata["Name"] or "")
        if name:
            by_name.setdefault(_normal(name), Installed(name, one.version, _licence(one), _needs(one)))
    return [by_name[name] for name in sorted(by_name)]


def require_library() -> None:
    """Refuse where the library that writes the bill is not installed.

    Raises
    ------
    SettingsError
        Saying what to install, or what to leave out.
    """
    try:
        import cyclonedx  # noqa: F401
    except ImportError as error:
        raise SettingsError(
            f"{FILE} needs the package cyclonedx-python-lib: pip install 'fedballot[officer]', or leave the file out "
            "with --no-sbom"
        ) from error


def write_bill(path: Path, packages: Sequence[Installed]) -> Path:
    """Write the bill; fedballot itself is what it is about, if it is among the packages.

    Raises
    ------
    SettingsError
        If the library is missing.
    """
    require_library()
    from cyclonedx.model.bom import Bom
    from cyclonedx.output.json import JsonV1Dot6

    bom, components = Bom(), {_normal(one.name): _component(one) for one in packages}
    for name, component in components.items():
        if name == "fedballot":
            bom.metadata.component = component
        else:
            bom.components.add(component)
    for one in packages:
        needs = [components[name] for name in one.needs if name in components]
        bom.register_dependency(components[_normal(one.name)], needs)
    path.write_text(JsonV1Dot6(bom).output_as_string(indent=1) + "\n", encoding="utf-8")
    return path


def _component(one: Installed) -> Any:
    from cyclonedx.contrib.license.factories import LicenseFactory
    from cyclonedx.model.component import Component, ComponentType
    from packageurl import PackageURL

    name = _normal(one.name)
    purl = PackageURL("pypi", name=name, version=one.version)
    return Component(
        name=one.name,
        version=one.version,
        type=ComponentType.APPLICATION if name == "fedballot" else ComponentType.LIBRARY,
        purl=purl,
        bom_ref=purl.to_string(),
        licenses=[LicenseFactory().make_from_string(one.licence)] if one.licence else [],
    )


def _needs(one: Distribution) -> tuple[str, ...]:
    always = (words for words in one.requires or () if "extra ==" not in words.partition(";")[2])
    found = (re.match(r"[A-Za-z0-9._-]+", words) for words in always)
    return tuple(_normal(match[0]) for match in found if match)


def _licence(one: Distribution) -> str:
    """The SPDX expression if there is one, else the name that the package gives, else what it is classified as."""
    expression, name = (str(one.metadata[key] or "").strip() for key in ("License-Expression", "License"))
    if expression:
        return expression
    if name and name != "UNKNOWN" and len(name) <= LONGEST_LICENCE and "\n" not in name:
        return name
    classes = [str(entry) for entry in one.metadata.get_all("Classifier") or ()]
    return next((entry.removeprefix(CLASSIFIER) for entry in classes if entry.startswith(CLASSIFIER)), "")


def _normal(name: str) -> str:
    """A distribution's name as package indexes write it."""
    return "-".join(filter(None, name.lower().replace("_", "-").replace(".", "-").split("-")))
