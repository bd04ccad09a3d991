"""The pack of a run: its guarantees, its evaluation, and what it was made with."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedballot import __version__
from fedballot.core.errors import DataError, SettingsError
from fedballot.core.files import read_json, sha256, write_json
from fedballot.deploy.officer import registry, seal, software
from fedballot.deploy.officer.public_part import finished_run
from fedballot.deploy.officer.run_sheet import run_sheet
from fedballot.deploy.officer.sheet import levels
from fedballot.methods.registry import get_method
from fedballot.model.card import card
from fedballot.model.loaded import read_description, schema_of
from fedballot.privacy.words import adjacency_note, capital, holds
from fedballot.report.html import write_page
from fedballot.report.view import guarantee_rows, key_settings
from fedballot.runs.description import NAME

AUDIT_KEYS = {"method", "claim", "delta", "layers", "passed", "lower_bound"}
HASHED = ("result.json", "release.npz", "schema.toml", "preparation.skops", NAME, "server-space.npz")
SIMULATION = "This run was a simulation on one machine. It is no deployment; do not register it."


@dataclass(frozen=True)
class Publisher:
    """Who publishes, what for, and whose region; what is empty is left to be filled in."""

    curators: Sequence[str] = ()
    purpose: str = ""
    region: str = ""


def write_run_pack(
    run: Path, out: Path, *, signer: seal.Signer | None, publisher: Publisher, audit: Path | None, bill: bool
) -> Path:
    """Write a run's pack into a new folder.

    Parameters
    ----------
    audit
        Folder that ``fedballot audit METHOD --out`` wrote, or None.
    bill
        Whether with the software bill of materials.

    Raises
    ------
    DataError
        If there is no such run, it is not done, or a file of it is damaged.
    SettingsError
        If ``out`` is not empty, the audit is of another method, or a library is missing.
    """
    result = finished_run(run)
    findings = None if audit is None else _read_audit(audit, str(result["method"]))
    description = read_description(run) if (run / NAME).exists() else None
    if bill:
        software.require_library()
    with seal.new_pack(out, signer) as folder:
        first = next(filter(holds, guarantee_rows(result)), None)
        if first is not None:
            _write_entry(folder, run, result, first, publisher, has_model=description is not None)
        if description is not None:
            _write_card(folder, run, result, description)
        if findings is not None:
            write_json(folder / "audit.json", findings)
        if bill:
            software.write_bill(folder / software.FILE, software.installed())
        rows = run_sheet(result, findings)
        title = f"{result['method']}, run {run.resolve().name}"
        write_page("pack_sheet.html.j2", {"title": title, "levels": levels(rows)}, folder / "evaluation.html")
        page = _page(run, result, [*sorted(path.name for path in folder.iterdir())], signed=signer is not None)
        write_page("pack_run.html.j2", page, folder / "report.html")
    return out


def _page(run: Path, result: Mapping[str, Any], files: Sequence[str], *, signed: bool) -> dict[str, Any]:
    return {
        "result": result,
        "name": run.resolve().name,
        "guarantees": guarantee_rows(result),
        "adjacency_note": adjacency_note(result["guarantees"]),
        "summary": _summary(str(result["method"])),
        "key_settings": key_settings(result),
        "hashes": [(path.name, sha256(path)) for path in _own_files(run)],
        "files": files,
        "signed": signed,
    }


def _summary(method: str) -> tuple[str, str] | None:
    """What a method does and sends; None for one of a package that is not here."""
    try:
        entry = get_method(method)
    except SettingsError:
        return None
    return capital(entry.summary), entry.sends


def _own_files(run: Path) -> list[Path]:
    paths = [run / name for name in HASHED]
    return [path for path in (*paths, *sorted(run.glob("server-model-*"))) if path.is_file()]


def _write_entry(
    folder: Path,
    run: Path,
    result: Mapping[str, Any],
    guarantee: Mapping[str, Any],
    publisher: Publisher,
    *,
    has_model: bool,
) -> None:
    rounds, others = len(result["rounds"]), sum(map(holds, result["guarantees"])) - 1
    notes = [SIMULATION] if result["simulated"] else []
    if others:
        notes.append(f"The run has {others} more guarantees, for other units, views or clients: its report has them.")
    about = registry.About(
        name=f"{result['method']} {run.resolve().name}",
        description=f"Made by federated learning with the method {result['method']} of fedballot {__version__}, from "
        f"the answers of {result['clients']['asked']} clients about public records.",
        kind="Machine learning model" if has_model else "Summary statistics",
        date=str(result["started"])[:10],
        mechanisms=f"Implemented by fedballot {result['versions'].get('fedballot', __version__)}.",
        curators=publisher.curators,
        purpose=publisher.purpose,
        region=publisher.region,
        releases="One release" if rounds == 1 else "Many releases",
        notes=" ".join(notes),
    )
    write_entry(folder / registry.FILE, guarantee, about)


def write_entry(path: Path, guarantee: Mapping[str, Any], about: registry.About) -> None:
    """Write the draft entry of a guarantee."""
    path.write_text(registry.to_yaml(registry.entry(guarantee, about)) + "\n", encoding="utf-8")


def _write_card(folder: Path, run: Path, result: Mapping[str, Any], description: Mapping[str, Any]) -> None:
    form = "skops" if zipfile.is_zipfile(run / str(description["files"][0])) else "torch"
    words = card(result, description, schema_of(description, run), run.resolve().name, form)
    (folder / "model-card.md").write_text(words, encoding="utf-8")


def _read_audit(folder: Path, method: str) -> dict[str, Any]:
    path = folder / "audit.json" if folder.is_dir() else folder
    report = read_json(path)
    if not isinstance(report, dict) or not report.keys() >= AUDIT_KEYS:
        raise DataError(f"--audit {path}: is no audit; `fedballot audit {method} --out DIR` writes one")
    if report["method"] != method:
        raise SettingsError(f"--audit {path}: is of {report['method']}, but the run is of {method}")
    return json.loads(json.dumps(report))  # type: ignore[no-any-return]
