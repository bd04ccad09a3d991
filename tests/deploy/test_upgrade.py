"""What an earlier version wrote is read, and what it spent stays spent."""

import shutil
from pathlib import Path

import pytest

from fedballot.deploy.check import check_site
from fedballot.deploy.pki import make_site_key
from fedballot.privacy.ledger import Ledger
from tests.deploy.test_ledger_site import ask, charges

STORED = Path(__file__).parent / "stored"


@pytest.fixture(params=sorted(path.name for path in STORED.iterdir() if path.is_dir()))
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    place = tmp_path / "stored"
    shutil.copytree(STORED / request.param, place)
    for folder in ("ledger", "state"):
        (place / "site1" / folder).chmod(0o700)
    make_site_key(place / "site1" / "site.key")
    return place / "site1" / "site.toml"


def test_a_stored_site_is_whole_and_its_spending_counts(site: Path) -> None:
    found = {finding.what: finding for finding in check_site(site)}
    assert found["file"].good and found["own data"].good and found["public data"].good, found
    assert found["budget"].good and "epsilon 23.06 of 100 spent" in found["budget"].words
    assert Ledger(site.parent / "ledger").verify() == 6
    _, metrics = ask(site, request="new/1")
    assert metrics["refused"] == "" and charges(site) == 3
    found = {finding.what: finding for finding in check_site(site)}
    assert float(found["budget"].words.split()[1]) > 30
