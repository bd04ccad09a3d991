"""Units of systemd, as systemd itself reads them where it is installed."""

import shutil
import subprocess
from pathlib import Path

import pytest

from fedballot.core.errors import SettingsError
from fedballot.deploy.server import init_server
from fedballot.deploy.service import server_unit, site_unit
from fedballot.deploy.site_file import read_site
from fedballot.deploy.template import init_site


def units(folder: Path) -> dict[str, str]:
    server = init_server(folder / "server", ("localhost",), control="127.0.0.1:18000")
    init_site(folder / "site", number=1, sites=2, server="localhost:9092")
    site = read_site(folder / "site" / "site.toml")
    return {
        "fedballot-server": server_unit(server, fleet="0.0.0.0:9092", user="root", runs=folder / "runs"),
        "fedballot-site1": site_unit(site, user="root"),
    }


def test_units_start_again_and_write_where_they_must(tmp_path: Path) -> None:
    both = units(tmp_path)
    for name, text in both.items():
        lines = text.splitlines()
        assert f"/etc/systemd/system/{name}.service" in text and "Restart=on-failure" in lines and "User=root" in lines
    assert f"ReadWritePaths={tmp_path}/server {tmp_path}/runs" in both["fedballot-server"]
    assert f"ReadWritePaths={tmp_path}/site {tmp_path}/site/ledger {tmp_path}/site/state" in both["fedballot-site1"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_takes_them(tmp_path: Path) -> None:
    for name, text in units(tmp_path).items():
        path = tmp_path / f"{name}.service"
        path.write_text(text)
        done = subprocess.run(["systemd-analyze", "verify", path], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and name not in done.stderr, done.stderr


def test_a_path_that_systemd_reads_otherwise_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="use another path"):
        units(tmp_path / "a b")
