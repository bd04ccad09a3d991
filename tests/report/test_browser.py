"""The pages in a real browser: what is on them, that they fit a phone, and that nothing is fetched."""

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import fedballot as fb
from fedballot.report.build import write_report
from fedballot.report.compare_page import write_compare
from fedballot.report.study import write_study
from fedballot.report.sweep_page import sweep_page
from tests.report.test_study import ROWS

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


def asked(page: Path, tmp_path: Path, script: str) -> str:
    """What a script says of a page in a frame as wide as a phone; only this test adds it, outside the page's policy."""
    probe = tmp_path / "probe.html"
    probe.write_text(
        f'<iframe id="f" src="{page.as_uri()}" style="width:390px;height:800px;border:0"></iframe><script>'
        "onload = () => { const page = document.getElementById('f').contentDocument;"
        f"document.title = (() => {{ {script} }})(); }}</script>"
    )
    flags = ("--allow-file-access-from-files", "--disable-web-security", "--virtual-time-budget=3000", "--dump-dom")
    seen = browse(probe, tmp_path / "phone", *flags).stdout
    match = re.search(r"<title>(.*?)</title>", seen, re.S)
    assert match, seen[:300]
    return match[1]


WIDTHS = "return page.documentElement.scrollWidth + ' ' + page.documentElement.clientWidth;"


@pytest.mark.parametrize("kind", ["report", "compare", "sweep", "budget"])
def test_nothing_runs_off_a_phone(write_run: Callable[..., Path], tmp_path: Path, kind: str) -> None:
    folder = write_run()
    page = tmp_path / "page.html"
    if kind == "report":
        page = write_report(folder)
    elif kind == "compare":
        write_compare([folder], page)
    elif kind == "sweep":
        write_study(sweep_page("pate-fl", ROWS), page)
    else:
        fb.budget("pate-fl", epsilon=1.0, clients=100).write(page)
    needs, has = map(int, asked(page, tmp_path, WIDTHS).split())
    assert 300 < has <= 390 and needs <= has


def test_a_comparison_sorts_and_filters_from_the_keyboard(
    write_run: Callable[..., Path], result: dict[str, Any], tmp_path: Path
) -> None:
    runs = []
    for name, accuracy in (("b", 0.5), ("a", 0.9), ("c", None)):
        metrics = result["metrics"] | {"server_accuracy": accuracy}
        runs.append(write_run(name, arrays=None, metrics=metrics, settings=result["settings"] | {"epsilon": ord(name)}))
    page = write_compare(runs, tmp_path / "compare.html")
    script = """
      const table = page.querySelector("table.runs"), rows = () => [...table.tBodies[0].rows];
      const names = () => rows().filter(r => !r.hidden).map(r => r.cells[0].textContent.trim()[2]).join("");
      const button = table.querySelectorAll("th button")[1], said = [names()];
      button.click(); said.push(names() + table.tHead.rows[0].cells[1].ariaSort);
      button.click(); said.push(names() + table.tHead.rows[0].cells[1].ariaSort);
      const input = page.querySelector(".controls input");
      input.value = "90.0"; input.dispatchEvent(new Event("input")); said.push(names());
      said.push(page.querySelector(".controls output").textContent);
      said.push(button.tabIndex);
      return said.join(" | ");"""
    said = asked(page, tmp_path, script).split(" | ")
    # what was not measured stays last
    assert said == ["bac", "bacascending", "abcdescending", "a", "1 of 3", "0"]


def test_what_is_collapsed_is_printed(write_run: Callable[..., Path], tmp_path: Path) -> None:
    page = write_report(write_run())
    text = page.read_text()
    seen = "return [...page.querySelectorAll('details:not([open]) dl')].map(d => d.checkVisibility()).join(' ');"
    shut = asked(page, tmp_path, seen).split()
    page.write_text(text.replace("@media print", "@media all"))
    printed = asked(page, tmp_path, seen).split()
    assert len(shut) == len(printed) >= 3 and {*shut} == {"false"} and {*printed} == {"true"}
