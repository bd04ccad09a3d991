"""What others on the machine must not be able to open or change."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedballot.core.errors import SettingsError
from fedballot.deploy.modes import check_modes, check_unchangeable, check_unreadable
from fedballot.deploy.site_file import Site, read_site
from fedballot.deploy.template import init_site


@pytest.fixture
def site() -> Iterator[Site]:
    """A site whose folder, and all above it, others may pass (pytest's own folders are closed)."""
    with tempfile.TemporaryDirectory() as root:
        Path(root).chmod(0o755)
        yield new_site(Path(root) / "site")


def new_site(folder: Path) -> Site:
    init_site(folder, number=0, sites=2, server="localhost:1")
    for name in ("ca.crt", "public.npz"):
        (folder / name).touch()
    (folder / "records.csv").touch(mode=0o600)
    for name in ("site.toml", "ca.crt", "public.npz"):
        (folder / name).chmod(0o644)
    folder.chmod(0o755)
    return read_site(folder / "site.toml")


def test_a_careful_site_passes(site: Site) -> None:
    check_modes(site)


@pytest.mark.parametrize("name", ["site.toml", "ca.crt", "public.npz", "."])
@pytest.mark.parametrize("mode", [0o775, 0o757])
def test_rules_that_others_can_change_are_refused(site: Site, name: str, mode: int) -> None:
    (site.path.parent / name).chmod(mode)
    with pytest.raises(SettingsError, match=rf"mode {mode:o} lets others change it; run: chmod go-w "):
        check_modes(site)


@pytest.mark.parametrize("mode", [0o640, 0o604])
def test_records_that_others_can_read_are_refused_unless_a_folder_above_is_closed(site: Site, mode: int) -> None:
    site.data.private.chmod(mode)
    with pytest.raises(SettingsError, match=rf"records\.csv: mode {mode:o} lets others read the records"):
        check_modes(site)
    site.path.parent.chmod(0o700)
    check_modes(site)


def test_a_folder_closed_to_one_class_of_users_is_open_to_the_other(site: Site) -> None:
    site.data.private.chmod(0o644)
    site.path.parent.chmod(0o710)
    with pytest.raises(SettingsError, match="lets others read"):
        check_unreadable(site.data.private)
    site.data.private.chmod(0o604)
    check_unreadable(site.data.private)


def test_a_sticky_folder_keeps_files_their_owners(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    check_unchangeable(tmp_path)
