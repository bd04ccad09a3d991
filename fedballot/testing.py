"""Checks that every method should pass, after scikit-learn's ``check_estimator``: real runs on digits, in this process.

>>> from fedballot import get_method
>>> from fedballot.testing import check_method
>>> check_method(get_method("pate-fl"), queries=20, sigma=30)  # doctest: +SKIP
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from fedballot.core.files import read_arrays
from fedballot.core.setting import build, declaration, names_of
from fedballot.datasets.examples import Examples
from fedballot.methods.api import Method
from fedballot.methods.entry import entry_fault
from fedballot.privacy.checks import check_mechanism
from fedballot.report.build import write_report
from fedballot.runs.trial import Trial, charges_of, recorded
from fedballot.settings.parts import CommonSettings
from fedballot.wire.messages import Arrays, deserialise, serialise
from fedballot.wire.packing import WireError

__all__ = ["check_mechanism", "check_method"]

SECRET = "patient 17"


def check_method(method: Method, **settings: Any) -> None:
    """Check a method on three clients with real digits and scikit-learn models.

    Parameters
    ----------
    method
        Its entry.
    **settings
        In place of the small ones that are used here; what makes the method quick, and its models if it needs others.

    Raises
    ------
    AssertionError
        At the first check that fails: names the method, the check, what to do, and what went wrong at a client, if
        anything did.

    Examples
    --------
    >>> from fedballot import get_method
    >>> check_method(get_method("fedkd-dp"), epsilon=50, server_epochs=2)  # doctest: +SKIP
    """
    if fault := entry_fault(method):
        raise AssertionError(f"{method.name}: Entry: {fault}")
    if settings.get("secure_aggregation"):
        remedy = "leave secure_aggregation out: the base adds up, masked or not"
        raise AssertionError(f"{method.name}: Entry: an answer under masks tells nothing. To mend it, {remedy}")
    with tempfile.TemporaryDirectory(prefix="fedballot-check-") as scratch:
        for check in CHECKS:
            trial = Trial(method, settings, Path(scratch) / check.__name__, check.__doc__ or "")
            try:
                check(trial)
            except Exception as error:
                at_client, ours = _client_error(trial.root), isinstance(error, AssertionError)
                if ours and not at_client:
                    raise
                what = error if ours else f"{method.name}: {trial.title}: {type(error).__name__}: {error}"
                raise AssertionError(f"{what}{at_client}") from (None if ours else error)


def _client_error(root: Path) -> str:
    """The last error that a client has kept to itself, in a folder that goes when the check ends."""
    last = [path.read_text().strip().splitlines()[-1] for path in sorted(root.rglob("errors.txt"))]
    return next((f". At a client: {line}" for line in reversed(last) if SECRET not in line), "")


def declared(trial: Trial) -> None:
    """Settings and words: each setting has a help text, and values come back from a run's record."""
    for field in dataclasses.fields(trial.method.settings):
        if not declaration(field).help.strip():
            trial.fail(f"{field.name} has no help text", "say in a line what it does")
    trial.method.settings()
    if build(trial.method.settings, trial.settings.to_dict()) != trial.settings:
        trial.fail("to_dict() does not build the same settings", "use plain types: numbers, texts, tuples of texts")
    for name in ("name", "summary", "sends", "protects", "from_whom", "source"):
        if not getattr(trial.method, name).strip():
            trial.fail(f"{name} is empty", "fill it in: `fedballot methods` shows it")


def repeats(trial: Trial) -> None:
    """Same request, same bytes: whoever asks twice hears nothing new."""
    side = trial.server("run")
    request = trial.requests(side)[0]
    first, second = (trial.fit(trial.client(0), request)[0] for _ in range(2))
    if serialise(first) != serialise(second):
        trial.fail("the second answer differs", "seed what is random, but for the noise, which the ledger stores")


def refuses(trial: Trial) -> None:
    """Wrong requests: another public set, no arrays, and a known name with other arrays are refused."""
    side = trial.server("run")
    request, client = trial.requests(side)[0], trial.client(0)
    arrays = deserialise(request.tensors)
    if trial.fit(client, request, fingerprint="another")[1]["refused"] != "fingerprint":
        trial.fail("another public set was accepted", "leave fit() to the base")
    if arrays and not trial.fit(client, request, [])[1]["refused"]:
        trial.fail("a request without its arrays was accepted", "raise Refusal in question()")
    composition = trial.composition()
    if charges_of(trial, "run"):
        trial.fail("a refused request was charged", "let question() check the arrays")
    if not (composition.recorded and arrays and side.strategy.charged_as(1) == request.config["request"]):
        return
    trial.fit(trial.client(0), request)
    first = arrays[0]
    other = first[::-1].copy() if first.dtype.kind in "iu" and first.size > 1 else first + first.dtype.type(1)
    if not trial.fit(trial.client(0), request, [other, *arrays[1:]])[1]["refused"]:
        trial.fail("the same name with other arrays was answered", "leave asked() and charged() to the base")


def charged(trial: Trial) -> None:
    """Charge: an answer costs what the composition says, or has no ledger at all."""
    trial.answer("run")
    composition, found = trial.composition(), charges_of(trial, "run")
    if not composition.recorded:
        if trial.server("run").strategy.charged_as(1) in found:  # a part may have a ledger entry of its own
            trial.fail("a method that promises nothing was charged", "give its composition a cost, or recorded=False")
        return
    if composition.private and not found:
        trial.fail("nothing was charged", "leave answer() and release() to the base")
    for request, costs in found.items():
        if costs != composition.costs():
            what = f"{request!r} was charged {costs}, the server's composition costs {composition.costs()}"
            trial.fail(what, "let facts() of client and Strategy say the same numbers")


def noisy(trial: Trial) -> None:
    """Noise: a seed gives one release, another seed another, and a seed stamps every guarantee."""
    composition = trial.composition()
    if not composition.private:
        return
    if "noise_seed" not in names_of(trial.method.settings):
        trial.fail("there is no setting noise_seed", "extend NoiseSeed of fedballot.settings.parts")
    releases: list[Any] = []
    for seed in (1, 2):
        name, settings = f"seed-{seed}", trial.seeded(seed)
        side = trial.server(name, settings)
        if any(part.central for part in composition.parts.values()):
            trial.round(side, 1, name, settings)
            releases.append({key: array.tobytes() for key, array in (side.strategy.state() or {}).items()})
        else:
            releases.append(serialise(trial.answer(name, settings)))
            if serialise(trial.answer(f"again-{name}", settings)) != releases[-1]:
                trial.fail("one seed gave two releases", "draw from the source that release() gets, and seed the rest")
        stamps = {guarantee.status for guarantee in side.strategy.guarantees()}
        if not stamps <= {"seeded", "none"}:
            trial.fail(f"noise_seed={seed}, but guarantees say {stamps}", "pass seeded= to the Composition")
    if releases[0] == releases[1]:
        trial.fail("two seeds gave the same release", "draw from self.noise() or the source that release() gets")


def fails_blank(trial: Trial) -> None:
    """Failure: a client of a private method whose work fails answers blank, and is charged."""

    def read() -> Examples:
        raise ValueError(SECRET)

    side = trial.server("run")
    request = trial.requests(side)[0]
    blank, metrics = trial.fit(trial.client(0, read=read), request)
    if SECRET in str(metrics):
        trial.fail("an error's text left the client", "leave fit() to the base")
    if not trial.composition().private:
        if not metrics["refused"] and not trial.method.single_client:
            trial.fail("a client that cannot read its records answered", "raise, and do not answer from nothing")
        return
    if side.strategy.charged_as(1) != request.config["request"]:
        return  # all answers come of one sample, which is charged once: to refuse tells no more than that sample
    if metrics["refused"]:
        trial.fail(f"it refused: {metrics['detail']}", "read records in exact() alone, and let blank() do without")
    if not charges_of(trial, "run"):
        trial.fail("the blank answer was not charged", "leave release() to the base")
    usual = trial.answer("other")
    if [(a.shape, a.dtype.kind) for a in blank] != [(a.shape, a.dtype.kind) for a in usual]:
        trial.fail("a blank answer has another form", "return the parts of exact() from blank(), in their shapes")
    side.strategy.read(blank)


def rejects(trial: Trial) -> None:
    """Bad arrays: the server rejects them with a reason, and goes on."""
    side, good = trial.server("run"), trial.answer("run")
    trial.requests(side)
    bad: dict[str, Arrays] = {"no array": [], "too many arrays": [*good, *good[:1], *good[:1]]}
    if good:
        first = good[0]
        bad["another shape"] = [first[None], *good[1:]]
        bad["another dtype"] = [first.astype(np.complex128), *good[1:]]
        bad["NaN"] = [np.full(first.shape, np.nan, first.dtype if first.dtype.kind == "f" else float), *good[1:]]
        if first.dtype.kind == "f":
            bad["infinity"] = [np.full(first.shape, np.inf, first.dtype), *good[1:]]
    for words, arrays in bad.items():
        if not good and not arrays:
            continue
        try:
            side.strategy.read(arrays)
        except WireError:
            continue
        except Exception as error:
            trial.fail(f"{words}: {type(error).__name__}: {error}", "raise WireError in read()")
        trial.fail(f"{words} was accepted", "check number, dtype, shape and range in read()")


def resumes(trial: Trial) -> None:
    """Resume: a run stopped after each round ends like one that was not, and its report can be written."""
    settings = trial.seeded(1)
    results, releases = [], []
    for name in ("straight", "stopped"):
        side = trial.server(name, settings)
        while len(side.strategy.round_records) < side.strategy.rounds:
            trial.round(side, len(side.strategy.round_records) + 1, name, settings)
            if name == "stopped":
                side.recorder.failed(KeyboardInterrupt())
                kept = side.strategy.state() is not None
                if not kept and len(side.strategy.round_records) < side.strategy.rounds:
                    trial.fail("the server forgets its rounds", "return from state() what later rounds need")
                side = trial.server(name, settings) if kept else side
        side.finish(None)
        results.append({key: side.recorder.result[key] for key in ("status", "metrics", "guarantees")})
        path = side.recorder.folder.release
        releases.append({key: a.tobytes() for key, a in read_arrays(path).items()} if path.exists() else {})
    if not write_report(side.recorder.folder.path).exists():
        trial.fail("there is no report", "see `fedballot report`")
    differing = [key for key in results[0] if str(results[0][key]) != str(results[1][key])]
    if differing or releases[0] != releases[1]:
        what = f"{', '.join(differing) or 'release.npz'} differ"
        trial.fail(what, "return from state() all that later rounds need, take it up in restore(), and seed the rest")


def reads_all(trial: Trial) -> None:
    """Unread settings: client, Strategy or base reads each one."""
    with recorded(trial) as seen:
        side = trial.server("run")
        while len(side.strategy.round_records) < side.strategy.rounds:
            trial.round(side, len(side.strategy.round_records) + 1, "run")
        side.finish(None)
    kinds = (trial.method.settings, trial.method.client_class, trial.method.strategy_class)
    modules = {base.__module__ for kind in kinds for base in kind.__mro__} - BASE - {*sys.stdlib_module_names}
    sources = "\n".join(inspect.getsource(sys.modules[name]) for name in modules if not name.startswith("flwr."))
    for name in sorted({*names_of(trial.method.settings)} - seen - {*names_of(CommonSettings)}):
        if not re.search(rf"\.{name}\b", sources):  # else it is read in another configuration
            trial.fail(f"nobody reads {name}", "drop the part that declares it, or the setting")


BASE = {
    *("fedballot.settings.parts", "fedballot.core.setting", "fedballot.clients.base", "fedballot.clients.summed"),
    *(f"fedballot.strategies.{name}" for name in ("base", "rounds", "hooks", "one_shot", "summed")),
}


CHECKS = (declared, charged, repeats, refuses, noisy, fails_blank, rejects, resumes, reads_all)
