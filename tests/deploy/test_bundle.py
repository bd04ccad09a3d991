"""A site runs its own code only, whatever bundle the server sends."""

from __future__ import annotations

import io
import tomllib
import zipfile
from pathlib import Path

import pytest
from flwr.cli.build import build_fab_from_disk

from fedballot import __version__
from fedballot.core.errors import SettingsError
from fedballot.deploy.bundle import check_bundle, compatible, write_app

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("app") / "fedballot"
    folder.mkdir()
    write_app(folder)
    return bytes(build_fab_from_disk(folder))


def with_file(bundle: bytes, name: str, content: bytes) -> bytes:
    """The bundle with one file added or replaced."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(bundle)) as old, zipfile.ZipFile(out, "w") as new:
        for info in old.infolist():
            if info.filename != name:
                new.writestr(info.filename, old.read(info))
        new.writestr(name, content)
    return out.getvalue()


def test_our_own_bundle_passes(bundle: bytes) -> None:
    check_bundle(bundle)
    check_bundle(build_fab_from_disk(ROOT))


def test_it_holds_no_secret_settings_and_every_key(bundle: bytes) -> None:
    with zipfile.ZipFile(io.BytesIO(bundle)) as archive:
        config = tomllib.loads(archive.read("pyproject.toml").decode())["tool"]["flwr"]["app"]["config"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
    assert set(config) == set(project) and set(config.values()) == {""}


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("fedballot/__init__.py", b"print('here')", "holds 'fedballot/__init__.py'"),
        ("numpy.py", b"", "holds 'numpy.py'"),
        ("../escape.py", b"", "escape.py"),
        ("fedballot/apps/client_app.py", b"app = None", "differs from this site's"),
        (
            "pyproject.toml",
            f"[project]\nversion = '{__version__}'\n[tool.flwr.app.components]\nclientapp = 'os:system'".encode(),
            "another client app",
        ),
        ("pyproject.toml", b"[project]\nversion = '0.99.0'", "runs fedballot 0.99.0, this site"),
        ("pyproject.toml", b"=", "cannot be read"),
        ("pyproject.toml", b"[project]", "cannot be read"),
    ],
)
def test_any_other_code_is_refused(bundle: bytes, name: str, content: bytes, words: str) -> None:
    with pytest.raises(SettingsError) as caught:
        check_bundle(with_file(bundle, name, content))
    assert words in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 nothing"])
def test_what_is_no_bundle_is_refused(content: bytes) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        check_bundle(content)


def test_the_same_name_twice_is_refused(bundle: bytes) -> None:
    out = io.BytesIO(bundle)
    with pytest.warns(UserWarning), zipfile.ZipFile(out, "a") as archive:
        archive.writestr("fedballot/apps/client_app.py", b"app = None")
    with pytest.raises(SettingsError, match="its own code only"):
        check_bundle(out.getvalue())


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        ("0.1.0", "0.1.7", True),
        ("0.1.0", "0.1.0.dev3", True),
        ("0.1.0", "0.2.0", False),
        ("1.0.0", "1.9.2", True),
        ("1.4.0", "2.0.0", False),
        ("0.1.0", "1.1.0", False),
    ],
)
def test_which_versions_work_together(one: str, other: str, together: bool) -> None:
    assert compatible(one, other) is compatible(other, one) is together
