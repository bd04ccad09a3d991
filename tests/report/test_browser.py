"""The pages in a real browser: what is on them, that they fit a phone, and that nothing is fetched."""

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedballot.report.build import write_report
from fedballot.report.compare import write_compare

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(BROWSER is None, reason="no chromium, chromium-browser or google-chrome on PATH"),
]
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND",
]


def browse(page: Path, profile: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [str(BROWSER), *FLAGS, f"--user-data-dir={profile}", *flags, page.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=90, check=True)


def opened(page: Path, profile: Path) -> tuple[str, set[str]]:
    """The page as the browser built it, and every address that it asked the network for."""
    log = profile.with_suffix(".json")
    seen = browse(page, profile, "--dump-dom", f"--log-net-log={log}").stdout
    # The browser asks for things of its own; those have no page as their initiator.
    starts = re.findall(r'"initiator":"([^"]*)".*?"url":"((?:https?|wss?|ftp)://[^"]*)"', log.read_text())
    return seen, {url for initiator, url in starts if initiator != "not an origin"}


def shoot(page: Path, profile: Path, width: int, *flags: str) -> np.ndarray:
    picture = profile.with_suffix(".png")
    browse(page, profile, f"--window-size={width},1400", f"--screenshot={picture}", *flags)
    with Image.open(picture) as image:
        return np.asarray(image.convert("L"), dtype=float)


def test_the_browser_shows_every_section_and_fetches_nothing(write_run: Callable[..., Path], tmp_path: Path) -> None:
    page = write_report(write_run())
    seen, fetched = opened(page, tmp_path / "profile")
    for section in ("result", "guarantee", "accuracy", "votes", "traffic", "time", "details"):
        assert re.search(rf'<\w+ [^>]*id="{section}"', seen), section
    assert seen.count("<img ") == 48 and seen.count("<svg") == 4
    for value in re.findall(r'(?:href|src)="([^"]*)"', seen) + re.findall(r"url\(\"?([^)]*)\)", seen):
        assert value.startswith(("#", "data:")), value
    assert not fetched
    control = tmp_path / "control.html"
    control.write_text('<!doctype html><img src="http://127.0.0.1:18080/seen.png">')
    assert opened(control, tmp_path / "control")[1] == {"http://127.0.0.1:18080/seen.png"}


def test_light_and_dark_differ_and_are_not_empty(write_run: Callable[..., Path], tmp_path: Path) -> None:
    page = write_report(write_run())
    light = shoot(page, tmp_path / "light", 1100)
    dark = shoot(page, tmp_path / "dark", 1100, "--blink-settings=preferredColorScheme=0")
    assert np.median(light) > 230 and np.median(dark) < 40
    assert light.std() > 15 and dark.std() > 15


@pytest.mark.parametrize("kind", ["report", "compare"])
def test_nothing_runs_off_a_phone(write_run: Callable[..., Path], tmp_path: Path, kind: str) -> None:
    folder = write_run()
    page = write_report(folder) if kind == "report" else write_compare([folder], tmp_path / "compare.html")
    # The page is measured in a frame as wide as a phone, by a probe that only this test adds.
    probe = tmp_path / "probe.html"
    probe.write_text(
        f'<iframe id="f" src="{page.as_uri()}" style="width:390px;height:800px;border:0"></iframe><script>'
        "onload = () => { const d = document.getElementById('f').contentDocument.documentElement;"
        "document.title = d.scrollWidth + ' of ' + d.clientWidth; }</script>"
    )
    flags = ("--allow-file-access-from-files", "--disable-web-security", "--virtual-time-budget=3000", "--dump-dom")
    seen = browse(probe, tmp_path / "phone", *flags).stdout
    match = re.search(r"<title>(\d+) of (\d+)</title>", seen)
    assert match and 300 < int(match[2]) <= 390 and int(match[1]) <= int(match[2]), seen[:300]
