"""The evaluation sheet of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedballot.core import numbers
from fedballot.deploy.officer import evidence, sheet
from fedballot.deploy.officer.sheet import BOTTOM, MIDDLE, TOP, Row
from fedballot.privacy.words import holds

RARE = 10  # test records of a class below which its recall says next to nothing


def run_sheet(result: Mapping[str, Any], audit: Mapping[str, Any] | None) -> list[Row]:
    """All rows.

    Parameters
    ----------
    result
        The public part of a finished run.
    audit
        ``audit.json`` of its method; None: none was made.
    """
    guarantees, method = result["guarantees"], str(result["method"])
    seeded = any(str(one["status"]) == "seeded" for one in guarantees)
    words = "the noise came from a known seed, so that it protects nobody." if seeded else ""
    return [
        *sheet.strength(guarantees),
        _other_releases(result),
        sheet.correctness([method], guarantees, words),
        _accounting(result),
        sheet.audit(audit, method, guarantees),
        _utility(result),
        _bias(result),
        _trust(result),
        sheet.noise(guarantees, ours=method in evidence.METHOD_TESTS, seeded=seeded),
        *sheet.uncovered(),
        _refusals(result),
        _tuning(result),
        _access(result),
        _collection(result),
    ]


def _other_releases(result: Mapping[str, Any]) -> Row:
    words = "This sheet speaks of one run. Other runs and other releases from the same records add to it; "
    words += (
        "a simulation keeps no account of them."
        if result["simulated"]
        else "each site’s ledger adds up what passed through fedballot, and nothing else does."
    )
    return Row(TOP, "Mixing with other data releases", words, "limited", evidence.LEDGER)


def _accounting(result: Mapping[str, Any]) -> Row:
    heading = "Algorithms and correctness: accounting"
    counted = [one for one in result["guarantees"] if holds(one)]
    if not counted:
        return Row(MIDDLE, heading, "Nothing is counted: no guarantee holds.", "missing")
    proved = [one for one in counted if str(one["status"]) == "proved"]
    by = dict.fromkeys(
        f"{one.get('composition') or 'one release'}, by {one.get('accountant')}" for one in proved or counted
    )
    words, backing = "; ".join(by) + ".", [*evidence.ACCOUNTING, *evidence.RECONCILED]
    if not proved:
        return Row(MIDDLE, heading, f"{words} This is a paper’s own accounting.", "limited", backing)
    if result["simulated"]:
        words += " At the end of this simulation the clients’ ledgers were compared with it."
    return Row(MIDDLE, heading, words, "backed", backing)


def _utility(result: Mapping[str, Any]) -> Row:
    accuracy, tested = result["metrics"].get("server_accuracy"), result["data"].get("n_test")
    if accuracy is None:
        return Row(MIDDLE, "Utility", "No accuracy was measured.", "open", evidence.MEASURES)
    words = f"The server’s model is right on {numbers.percent(accuracy)} of {numbers.count(tested)} test records of "
    source = result["data"].get("public_dataset") or result["data"].get("dataset")
    words += f"{source}. How it does at a site is not measured."
    return Row(MIDDLE, "Utility", words, "limited", evidence.MEASURES)


def _bias(result: Mapping[str, Any]) -> Row:
    measures = result["metrics"].get("server_measures") or {}
    recalls, support = measures.get("recall_per_class") or [], measures.get("support") or []
    known = [
        (recall, str(name)) for recall, name in zip(recalls, result["classes"], strict=False) if recall is not None
    ]
    groups = "How the model treats groups of people was not measured."
    if not known:
        return Row(MIDDLE, "Bias", f"No measures by class. {groups}", "open", evidence.MEASURES)
    (low, worst), (high, best) = min(known), max(known)
    words = (
        f"Recall from {numbers.percent(low)} ({worst}) to {numbers.percent(high)} ({best}) over the classes. {groups}"
    )
    rare = [str(name) for count, name in zip(support, result["classes"], strict=False) if count < RARE]
    if rare:
        words += f" Fewer than {RARE} test records each: {', '.join(rare)}."
    return Row(MIDDLE, "Bias", words, "limited", evidence.MEASURES)


def _trust(result: Mapping[str, Any]) -> Row:
    first = next(filter(holds, result["guarantees"]), None)
    if first is None:
        return Row(BOTTOM, "Trust models", "Everybody must be trusted: no guarantee holds.", "missing", evidence.TRUST)
    words = f"Seen by the adversary: {first['view']}. Trust: {first['trust']}. {result['aggregation'].get('words', '')}"
    words = words.strip()
    if result["simulated"]:
        words += " This was a simulation: one machine held the records of all clients, and had to be trusted with them."
        return Row(BOTTOM, "Trust models", words, "limited", evidence.TRUST)
    if str(first["trust"]) == "trusted aggregator":
        return Row(BOTTOM, "Trust models", words, "limited", evidence.TRUST)
    if not str(first["trust"]).startswith("secure"):
        return Row(BOTTOM, "Trust models", words, "backed", evidence.TRUST)
    masks = [*evidence.SECURE_SUM, *evidence.TRUST]
    if not result["aggregation"].get("colluders"):
        words += " One client that tells the server all it holds is one too many."
        return Row(BOTTOM, "Trust models", words, "limited", masks)
    return Row(BOTTOM, "Trust models", words, "backed", masks)


def _refusals(result: Mapping[str, Any]) -> Row:
    heading = "Side channels: refusals and error messages"
    rejected = result["clients"]["rejected"]
    counted = ", ".join(f"{reason}: {number}" for reason, number in sorted(rejected.items())) or "none"
    if result["simulated"]:
        return Row(BOTTOM, heading, f"Answers not used: {counted}. No site took part.", "open", evidence.REFUSALS)
    words = f"Answers not used: {counted}. A site’s refusals depend on the request and on its rules, "
    words += "not on what a record says."
    return Row(BOTTOM, heading, words, "backed", evidence.REFUSALS)


def _tuning(result: Mapping[str, Any]) -> Row:
    words = (
        "Whether settings were chosen by looking at private records is not known here; such a choice is not counted."
    )
    for one in result["changed"]:
        words += f" {one['setting']} was changed from {one['from']} to {one['to']} on {str(one['when'])[:10]}."
    return Row(BOTTOM, "Tuning of hyperparameters", words, "open")


def _access(result: Mapping[str, Any]) -> Row:
    heading = "Data security and access control"
    if result["simulated"]:
        return Row(BOTTOM, heading, "A simulation: all records lay on one machine, in one user’s reach.", "missing")
    words = "Each site’s own affair: see the packs of the sites. A site does not start while others on its machine can "
    words += "open its files."
    return Row(BOTTOM, heading, words, "limited", evidence.MODES)


def _collection(result: Mapping[str, Any]) -> Row:
    heading = "Data collection exposure"
    if result["simulated"]:
        return Row(BOTTOM, heading, "A simulation: the records of all clients were collected in one place.", "missing")
    size = numbers.size(result["bytes_up"]) if result["bytes_up"] is not None else "an unknown number of bytes"
    words = (
        f"Records stay at the sites; {size} of answers reached the server. A site charges each to its ledger before it "
    )
    words += "looks at a record for it."
    return Row(BOTTOM, heading, words, "backed", evidence.STAYS)
