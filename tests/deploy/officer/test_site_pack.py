"""A site's pack: each charge with who asked and what for, what all mean, and how the site's files stand now."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from fedballot.cli import main as cli
from fedballot.core.errors import DataError, RunError, SettingsError
from fedballot.deploy import approval
from fedballot.deploy.approval import asked_runs
from fedballot.deploy.officer import registry, seal
from fedballot.deploy.officer.evidence import all_evidence
from fedballot.deploy.officer.run_pack import Publisher
from fedballot.deploy.officer.sheet import Row
from fedballot.deploy.officer.site_pack import write_site_pack
from fedballot.deploy.officer.site_sheet import site_sheet
from fedballot.deploy.pki import make_site_key
from fedballot.deploy.site_file import read_site
from fedballot.privacy.ledger import Ledger
from fedballot.privacy.ledger.copies import back_up
from fedballot.studies.ledger_view import view
from tests.deploy.harness import edit, write_data
from tests.deploy.test_ledger_site import ask, make_site, settings_for
from tests.deploy.test_upgrade import STORED


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(approval, "LOOK_S", 0.05)
    (tmp_path / "fingerprint").write_text(write_data(tmp_path))
    return tmp_path


@pytest.fixture
def site(folder: Path) -> Path:
    """A site that was charged once, and at which a second run waits, whose purpose is no page's friend."""
    site = make_site(folder)
    ask(site)
    edit(site, approve="by-hand")
    ask(site, "q/1", settings_for(site, round_timeout_s=1))
    for path in (site.parent / "state" / "asked").glob("*.json"):
        values = json.loads(path.read_text())
        values["purpose"] = "<script>alert(1)</script>" if values["run"] == "q" else "screening"
        path.write_text(json.dumps({**values, "requester": "Dr Seidl"}))
    return site


def pack(site: Path, out: Path, **options: Any) -> Path:
    return write_site_pack(site, out, **{"signer": None, "publisher": Publisher(), "bill": False, **options})


def sheet(site: Path) -> dict[str, Row]:
    read = read_site(site)
    ledger = Ledger(read.budget.ledger)
    return {row.heading: row for row in site_sheet(read, view(ledger), asked_runs(read), 4)}


def test_each_charge_stands_there_with_who_asked_and_what_for(site: Path, tmp_path: Path) -> None:
    out = pack(site, tmp_path / "pack")
    page = (out / "report.html").read_text()
    charges, uncharged = page.split('id="charges"')[1].split('id="uncharged"')
    for words in ("r/1", "pate-fl", "epsilon=40", "Dr Seidl", "screening", "by rule", "Gaussian"):
        assert words in charges, words
    for words in ("waits", "&lt;script&gt;"):
        assert words in uncharged, words
    assert "<script" not in page
    ledger = view(Ledger(site.parent / "ledger"))
    assert ledger.guarantee is not None and ledger.head in page
    assert ledger.guarantee.sentence().replace("'", "&#39;") in page
    assert json.loads((out / "ledger.json").read_text()) == ledger.to_dict()
    entry = yaml.safe_load((out / registry.FILE).read_text())["deployment"]
    assert entry["privacy_loss"]["privacy_parameters"]["epsilon"] == ledger.guarantee.epsilon > 12
    assert entry["deployment_model"]["access_type"] == "Interactive"


def test_a_charge_that_nobody_noted_is_told_as_such(site: Path, tmp_path: Path) -> None:
    shutil.rmtree(site.parent / "state" / "asked")
    page = (pack(site, tmp_path / "pack") / "report.html").read_text()
    assert page.split('id="charges"')[1].count("not noted") == 3
    assert sheet(site)["Algorithms and correctness: mechanisms"].finding == "open"


def test_the_sheet_follows_the_site_s_rules_and_files(site: Path) -> None:
    rows = sheet(site)
    assert {path for row in rows.values() for path in row.evidence} <= all_evidence()
    assert rows["Algorithms and correctness: mechanisms"].finding == "backed"
    assert rows["Trust models"].finding == "limited"
    assert rows["Data security and access control"].finding == "limited"
    assert rows["Privacy budget"].finding == "backed"
    (site.parent / "site.key").chmod(0o644)
    edit(site, secure_aggregation=True, epsilon=1.0)
    rows = sheet(site)
    assert rows["Data security and access control"].finding == "missing"
    assert "chmod" in rows["Data security and access control"].statement
    assert rows["Trust models"].finding == "backed"
    assert rows["Privacy budget"].finding == "missing", "more was spent than the file allows now"


def test_a_site_that_was_never_asked_has_a_pack_that_says_so(folder: Path, tmp_path: Path) -> None:
    out = pack(make_site(folder), tmp_path / "pack")
    assert "no answer has left this site" in (out / "report.html").read_text()
    assert {path.name for path in out.iterdir()} == {"report.html", "evaluation.html", "SHA256SUMS"}


def test_a_ledger_that_is_damaged_gone_or_old_has_none(site: Path, tmp_path: Path) -> None:
    ledger, out = site.parent / "ledger", tmp_path / "pack"
    back_up(Ledger(ledger), tmp_path / "older")
    ask(site, "r/1")  # served again: no new line
    edit(site, approve="by-rule")
    ask(site, "s/1")
    newest = tmp_path / "newest"
    shutil.copytree(ledger, newest)

    def put(source: Path) -> None:
        shutil.rmtree(ledger, ignore_errors=True)
        shutil.copytree(source, ledger)

    lines = (ledger / "ledger.jsonl").read_text()
    (ledger / "ledger.jsonl").write_text(lines.replace('"pate-fl', '"pate-gl').replace("r/1", "r/2", 1))
    with pytest.raises(DataError, match=r"ledger\.jsonl"):
        pack(site, out)
    put(newest)
    next((ledger / "releases").glob("*.npz")).write_bytes(b"other answers")
    with pytest.raises(DataError):
        pack(site, out)
    put(tmp_path / "older")
    with pytest.raises(RunError, match="an older ledger"):
        pack(site, out)
    shutil.rmtree(ledger)
    with pytest.raises(RunError, match="no ledger is here"):
        pack(site, out)
    with pytest.raises(SettingsError, match="cannot be read"):
        pack(site.with_name("none.toml"), out)
    assert not out.exists()
    put(newest)
    assert pack(site, out).exists()


def test_a_site_signs_with_its_own_key(site: Path, tmp_path: Path) -> None:
    key = site.parent / "site.key"
    out = pack(site, tmp_path / "pack", signer=seal.read_signer(key))
    assert not (out / seal.SIGNER).exists()
    if not (shutil.which("openssl") and shutil.which("ssh-keygen")):
        pytest.skip("no openssl or ssh-keygen")
    public = ["ssh-keygen", "-e", "-m", "PKCS8", "-f", f"{key}.pub"]
    (tmp_path / "signer.pem").write_bytes(subprocess.run(public, capture_output=True, check=True).stdout)
    line = ["openssl", "dgst", "-sha384", "-verify", "../signer.pem", "-signature", seal.SIGNATURE, seal.SUMS]
    assert subprocess.run(line, cwd=out, capture_output=True, check=False).returncode == 0
    (out / seal.SUMS).write_text("others\n")
    assert subprocess.run(line, cwd=out, capture_output=True, check=False).returncode != 0


@pytest.mark.parametrize("version", sorted(path.name for path in STORED.iterdir() if path.is_dir()))
def test_a_site_of_an_earlier_version_has_its_charges_told(version: str, tmp_path: Path) -> None:
    shutil.copytree(STORED / version, place := tmp_path / "stored")
    make_site_key(place / "site1" / "site.key")
    out = pack(place / "site1" / "site.toml", tmp_path / "pack")
    page = (out / "report.html").read_text()
    assert "23.1 of 100" in page and "6 lines, all whole" in page
    assert page.split('id="charges"')[1].count("ε = ") >= 2


@pytest.mark.parametrize("words", [["site", "none.toml"], ["run", "none"]])
def test_the_command_says_what_is_wrong(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["fedballot", "pack", *words, "--out", str(tmp_path / "pack"), "--no-sbom"])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert stop.value.code in (1, 2) and "none" in capsys.readouterr().err
    assert not (tmp_path / "pack").exists()


def test_the_command_packs_a_site(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        sys, "argv", ["fedballot", "pack", "site", str(site), "--out", str(tmp_path / "pack"), "--no-sbom"]
    )
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert not stop.value.code and (tmp_path / "pack" / "ledger.json").exists()
