"""The list of software: complete, with the licences that packages name, and valid where its library is installed."""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from fedballot.core.errors import SettingsError
from fedballot.deploy.officer.software import FILE, Installed, installed, write_bill


def test_what_is_installed_is_listed_once_with_version_licence_and_needs() -> None:
    found = {one.name.lower(): one for one in installed()}
    assert len(found) == len(installed()) > 20
    assert found["numpy"].version == version("numpy") and "BSD" in found["numpy"].licence
    assert found["fedballot"].licence == "Apache-2.0"
    assert {"numpy", "flwr", "dp-accounting"} <= set(found["fedballot"].needs)
    assert "torch" not in found["fedballot"].needs, "an extra"


def test_without_its_library_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "cyclonedx", None)
    with pytest.raises(SettingsError, match=r"pip install 'fedballot\[officer\]'.*--no-sbom"):
        write_bill(tmp_path / FILE, [])


def test_the_bill_keeps_to_cyclonedx_and_names_each_package(tmp_path: Path) -> None:
    pytest.importorskip("cyclonedx", reason="fedballot[officer] is not installed")
    packages = [
        Installed("fedballot", "0.1.0", "Apache-2.0", ("some-thing",)),
        Installed("Some_Thing", "1.0+local", "words that are no licence's name"),
        Installed("third", "2", ""),
    ]
    bill = json.loads(write_bill(tmp_path / FILE, packages).read_text())
    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.6", 1)
    assert bill["metadata"]["component"]["licenses"] == [{"license": {"id": "Apache-2.0"}}]
    by_name = {one["name"]: one for one in bill["components"]}
    assert set(by_name) == {"Some_Thing", "third"}
    assert by_name["Some_Thing"]["purl"] == "pkg:pypi/some-thing@1.0%2Blocal"
    assert by_name["Some_Thing"]["type"] == "library" and "licenses" not in by_name["third"]
    needs = {one["ref"]: one.get("dependsOn") for one in bill["dependencies"]}
    assert needs["pkg:pypi/fedballot@0.1.0"] == ["pkg:pypi/some-thing@1.0%2Blocal"]


def test_the_bill_of_this_environment_is_valid(tmp_path: Path) -> None:
    pytest.importorskip("cyclonedx", reason="fedballot[officer] is not installed")
    pytest.importorskip("jsonschema", reason="the validator of cyclonedx-python-lib is not installed")
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    text = write_bill(tmp_path / FILE, installed()).read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
