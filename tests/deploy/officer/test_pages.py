"""The pages of a pack in a real browser: they fetch nothing, fit a phone, and are printed in full."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fedballot.deploy.officer.run_pack import Publisher, write_run_pack
from fedballot.deploy.officer.site_pack import write_site_pack
from tests.deploy.harness import write_data
from tests.deploy.test_ledger_site import ask, make_site
from tests.report.test_browser import BROWSER, WIDTHS, asked, browse, opened

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="no chromium, chromium-browser or google-chrome on PATH"),
]


@pytest.fixture(params=["run", "site"])
def pack(request: pytest.FixtureRequest, write_run: Callable[..., Path], tmp_path: Path) -> Path:
    out = tmp_path / "pack"
    if request.param == "run":
        return write_run_pack(write_run(), out, signer=None, publisher=Publisher(), audit=None, bill=False)
    (tmp_path / "fingerprint").write_text(write_data(tmp_path))
    ask(site := make_site(tmp_path))
    return write_site_pack(site, out, signer=None, publisher=Publisher(), bill=False)


@pytest.mark.parametrize("name", ["report.html", "evaluation.html"])
def test_a_page_fetches_nothing_fits_a_phone_and_prints(pack: Path, tmp_path: Path, name: str) -> None:
    seen, fetched = opened(pack / name, tmp_path / "profile")
    assert "<table" in seen and not fetched
    needs, has = map(int, asked(pack / name, tmp_path, WIDTHS).split())
    assert 300 < has <= 390 and needs <= has
    paper = tmp_path / "page.pdf"
    browse(pack / name, tmp_path / "print", f"--print-to-pdf={paper}")
    assert paper.read_bytes().startswith(b"%PDF") and paper.stat().st_size > 20_000
