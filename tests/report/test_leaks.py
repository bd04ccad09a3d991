"""Attacks beside runs: matched by method and settings, or refused in words."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedballot import compare as compare_runs
from fedballot.core.errors import DataError, SettingsError
from fedballot.core.files import write_json
from fedballot.report.compare import compare
from fedballot.report.compare_page import compare_table, paper_table, write_compare
from fedballot.report.compare_plot import leak_figure
from fedballot.studies.attacks.measure import Rate, Score
from fedballot.studies.attacks.membership import Asked, Leak

Write = Callable[..., Path]


def attack(folder: Path, method: str, settings: dict[str, Any], found: float, asked: Asked | None = None) -> Path:
    rates = (Rate(0.001, found / 10, 0.0, found), Rate(0.01, found, found / 2, 2 * found))
    score = Score("lira", 0.7, 0.01, rates, 1.5, 1.2, (0.0, 1.0), (0.0, 1.0))
    asked = asked or Asked()
    leak = Leak(method, asked, asked.seen, 50, 1, 8, None, 1e-5, (score,), {}, 1.0)
    write_json(folder / "attack.json", {"command": "", "leaks": [leak.to_dict()], "shares": []})
    write_json(folder / "played/asked.json", {"method": method, "settings": settings, "asked": vars(asked)})
    return folder


@pytest.fixture
def runs(write_run: Write, result: dict[str, Any]) -> list[Path]:
    first, promise = result["settings"], result["guarantees"]
    return [
        write_run("private", arrays=None, method="pate-fl", settings={**first, "seed": 1}, guarantees=promise),
        write_run("plain", arrays=None, method="fedkd", settings=first, guarantees=[]),
    ]


def settings_of(runs: list[Path]) -> dict[str, Any]:
    return dict(compare(runs).rows[1].settings)


def test_attacks_stand_beside_the_runs_of_their_settings(runs: list[Path], tmp_path: Path) -> None:
    known = settings_of(runs)
    attack(tmp_path / "attacks/a", "fedkd", known, 0.1)
    attack(tmp_path / "attacks/b", "fedkd", known, 0.2, Asked("active-server"))
    attack(tmp_path / "attacks/c", "pate-fl", known, 0.01)  # of another seed
    attack(tmp_path / "attacks/d", "fedavg", known, 0.3)
    found = compare(runs, [tmp_path / "attacks"])
    assert [row.leak.found for row in found.rows if row.leak] == [0.01, 0.2]
    assert any("different adversaries" in note for note in found.notes)
    assert any("attacks fedavg, and no run is of that method" in note for note in found.notes)
    for table in (compare_table(found), paper_table(found)):
        assert table.head[-2:] == ("members found at 1 % false alarms", "ε shown")
        assert table.rows[1][-1] == "≥ 1.50" and table.rows[1][-2].endswith("(10.0–40.0)")
    figure = leak_figure(found.groups)
    assert figure is not None and len(figure.axes[0].containers) == 2  # also what promises nothing
    page = write_compare(runs, tmp_path / "out.html", [tmp_path / "attacks"]).read_text()
    assert "Members found" in page and "server-leak" in page
    assert write_compare(runs, tmp_path / "out.png", [tmp_path / "attacks"]).read_bytes()[:4] == b"\x89PNG"
    frame = compare_runs(runs, attacks=[tmp_path / "attacks"]).to_frame()
    assert frame["members_found"].tolist() == [0.01, 0.2] and frame["epsilon_shown"].tolist() == [1.5, 1.5]


def test_without_attacks_nothing_is_said_of_them(runs: list[Path], tmp_path: Path) -> None:
    assert "Members found" not in write_compare(runs, tmp_path / "out.html").read_text()
    assert not any("found" in name for name in compare_table(compare(runs)).head)


def test_what_fits_no_run_is_refused(runs: list[Path], tmp_path: Path) -> None:
    known = settings_of(runs)
    name = next(name for name, value in known.items() if isinstance(value, int) and name != "seed")
    other = attack(tmp_path / "other", "fedkd", {**known, name: 123456}, 0.1)
    with pytest.raises(SettingsError, match=rf"other settings than any run has: {name} \(123456 there"):
        compare(runs, [other])
    smaller = attack(tmp_path / "smaller", "fedkd", known, 0.1, Asked(records=10))
    with pytest.raises(SettingsError, match="another size"):
        compare(runs, [smaller])
    write_json(tmp_path / "shares/attack.json", {"leaks": [], "shares": [{}]})
    with pytest.raises(SettingsError, match="no membership inference"):
        compare(runs, [tmp_path / "shares"])
    with pytest.raises(DataError, match=r"holds no attack\.json"):
        compare(runs, [tmp_path / "nothing"])
