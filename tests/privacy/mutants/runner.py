"""Mutation testing: change one line of the source in memory, and see the named tests fail.

A worker has the third-party packages imported, but nothing of fedballot. For each mutant it forks; in the fork, an
import hook compiles the changed source of one module, and pytest runs the killers. No file on disk is touched.
`python -m tests.privacy.mutants.runner` prints the table of all mutants.
"""

from __future__ import annotations

import ast
import gc
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Self

ROOT = Path(__file__).parents[3]
WARM = (
    "PIL.Image",
    "cryptography.hazmat.primitives.asymmetric.x25519",
    "cryptography.x509",
    "dp_accounting.pld.pld_privacy_accountant",
    "dp_accounting.rdp",
    "flwr.client",
    "flwr.common",
    "flwr.server",
    "hypothesis",
    "mpmath",
    "pytest",
    "scipy.optimize",
    "scipy.sparse.linalg",
    "scipy.stats",
    "sklearn.datasets",
    "sklearn.linear_model",
    "sklearn.neural_network",
    "typer",
)
UNUSED = ("cacheprovider", "junitxml", "pastebin", "faulthandler", "unraisableexception", "threadexception")
PATIENCE = 120.0  # seconds for one mutant, hundreds of times what it needs: more is an endless loop


@dataclass(frozen=True)
class Mutant:
    """A fault in one line.

    Parameters
    ----------
    file : str
        Inside of fedballot/.
    within : str
        Class and function that hold the line, joined by a dot; empty for the whole file.
    line : str
        The line as it stands there, without indentation and comment; it must occur exactly once.
    change : str
        What takes its place.
    breaks : str
        The fault in words.
    killers : tuple of str
        Test ids inside of tests/, each of which must fail by an assertion; without brackets, one of its cases.
    torch : bool
        Whether the killers need torch, so that it is imported before the fork.
    """

    file: str
    within: str
    line: str
    change: str
    breaks: str
    killers: tuple[str, ...]
    torch: bool = False

    def __str__(self) -> str:
        return f"{self.file.removesuffix('.py')} {self.within}: {self.breaks}".replace(" : ", ": ")

    @property
    def path(self) -> Path:
        return ROOT / "fedballot" / self.file

    def source(self) -> str:
        """The changed source; ValueError if the line is not there, or the change is none."""
        text = self.path.read_text(encoding="utf-8")
        lines = text.splitlines()
        first, last = _extent(text, self.within)
        found = [number for number in range(first, last) if _code(lines[number]) == self.line]
        if len(found) != 1:
            where = f"{self.file} {self.within}".strip()
            raise ValueError(f"{where}: the line {self.line!r} occurs {len(found)} times, not once; renew the table.")
        if self.line == self.change:
            raise ValueError(f"{self}: the change changes nothing.")
        number = found[0]
        indent = lines[number][: len(lines[number]) - len(lines[number].lstrip())]
        lines[number] = indent + self.change
        changed = "\n".join(lines) + "\n"
        compile(changed, str(self.path), "exec")
        return changed


def _code(line: str) -> str:
    return line.partition("  # ")[0].strip()


def _extent(text: str, within: str) -> tuple[int, int]:
    """First line and the one after the last, counted from 0, of a function; of the whole text without a name."""
    body, lines = ast.parse(text).body, (0, len(text.splitlines()))
    for name in within.split(".") if within else ():
        node = next((n for n in body if getattr(n, "name", None) == name), None)
        if node is None:
            raise ValueError(f"{within}: there is no {name}; renew the table.")
        body, lines = getattr(node, "body", []), (node.lineno - 1, node.end_lineno or node.lineno)
    return lines


@dataclass(frozen=True)
class Outcome:
    """What the killers did: ids of those that passed, failures by assertion, other failures (id to message)."""

    passed: list[str]
    asserted: dict[str, str]
    other: dict[str, str]
    seconds: float

    def survived(self, mutant: Mutant) -> str:
        """Why the mutant is not killed as it must be; empty if it is."""
        if self.other:
            return "not an assertion: " + "; ".join(f"{name}: {text}" for name, text in self.other.items())
        missed = [k for k in mutant.killers if not any(_is_case(name, k) for name in self.asserted)]
        return f"lived, these passed: {', '.join(missed)}" if missed else ""


def _is_case(name: str, killer: str) -> bool:
    return name.removeprefix("tests/").startswith(killer) and name.removeprefix("tests/")[len(killer) :][:1] in "["


class Worker:
    """A warm process that forks for each mutant; close it, or use it in a `with`."""

    def __init__(self, *, torch: bool = False) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.privacy.mutants.runner", "serve", *WARM, *(["torch"] if torch else [])],
            cwd=ROOT,
            env={k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")} | {"OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, mutant: Mutant | None, killers: Sequence[str], patience: float = PATIENCE) -> Outcome:
        """Run the tests on the mutant, or on the true source."""
        source = mutant.source() if mutant else None
        request = {"file": mutant and str(mutant.path), "source": source, "killers": killers, "patience": patience}
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the worker died: exit code {self._process.wait(60)}")
        return Outcome(**json.loads(answer))

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.wait(timeout=60)
        self._process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Workers:
    """One worker without torch and one with it, each started when it is first asked for; use it in a `with`."""

    def __init__(self) -> None:
        self._started: dict[bool, Worker] = {}

    def __getitem__(self, torch: bool) -> Worker:
        if torch not in self._started:
            self._started[torch] = Worker(torch=torch)
        return self._started[torch]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._started.values():
            worker.close()


def check_killers(workers: Workers, mutants: Sequence[Mutant]) -> None:
    """Fail unless all killers pass on the true source."""
    for torch in sorted({mutant.torch for mutant in mutants}):
        killers = sorted({killer for mutant in mutants if mutant.torch == torch for killer in mutant.killers})
        outcome = workers[torch].run(None, killers, patience=300)
        assert (outcome.asserted, outcome.other) == ({}, {}) and len(outcome.passed) >= len(killers)


def _serve(warm: Sequence[str]) -> None:
    from _pytest.config import builtin_plugins

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what else is printed must not look like an answer
    for name in (*warm, *(f"_pytest.{plugin}" for plugin in builtin_plugins)):
        importlib.import_module(name)
    if "torch" in warm:
        importlib.import_module("skops.io")
    else:  # it would import torch with all that may be an estimator
        sys.modules["torch"] = None  # type: ignore[assignment]
        importlib.import_module("skops.io")
        del sys.modules["torch"]
    assert not any(name.partition(".")[0] == "fedballot" for name in sys.modules)
    gc.freeze()  # forks need not look through what is imported
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # plugins of other packages take longer than the tests
    with tempfile.TemporaryDirectory() as compiled:  # true modules and tests are compiled once, wherever this runs
        sys.pycache_prefix, sys.dont_write_bytecode = compiled, False
        for line in sys.stdin:
            request = json.loads(line)
            began = time.monotonic()
            answer = _in_a_fork(request)
            answers.write(json.dumps({**answer, "seconds": time.monotonic() - began}) + "\n")
            answers.flush()


def _in_a_fork(request: dict[str, Any]) -> dict[str, Any]:
    reads, writes = os.pipe()
    with tempfile.TemporaryFile() as printed:
        child = os.fork()
        if child == 0:
            os.setsid()
            os.close(reads)
            for stream in (1, 2):
                os.dup2(printed.fileno(), stream)
            try:
                os.write(writes, json.dumps(_tests(request)).encode())
            finally:
                os._exit(0)
        os.close(writes)
        content, deadline = b"", time.monotonic() + request["patience"]
        while select.select([reads], [], [], max(0.0, deadline - time.monotonic()))[0]:
            block = os.read(reads, 1 << 16)
            if not block:
                break
            content += block
        os.close(reads)
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        if content:
            answer: dict[str, Any] = json.loads(content)
            return answer
        printed.seek(0)
        tail = printed.read().decode(errors="replace")[-2000:]
        return {"passed": [], "asserted": {}, "other": {"all": f"no answer within {request['patience']} s: {tail}"}}


def _tests(request: dict[str, Any]) -> dict[str, Any]:
    """Run pytest in this process, with the changed module if there is one."""
    import hypothesis
    import pytest

    hypothesis.settings.register_profile(
        "mutants", derandomize=True, database=None, phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate]
    )
    hypothesis.settings.load_profile("mutants")  # the same examples every time, none made smaller
    seen = _Seen()
    hook = _Hook(request["file"], request["source"]) if request["file"] else None
    if hook:
        sys.meta_path.insert(0, hook)
    gc.disable()  # nothing here lives long
    options = ["-o", "addopts=--import-mode=importlib", "-q", "--tb=no"]
    options += [word for plugin in UNUSED for word in ("-p", f"no:{plugin}")]
    code = pytest.main([*options, *(f"tests/{killer}" for killer in request["killers"])], plugins=[seen])
    if code not in (0, 1):
        seen.other.setdefault("all", f"pytest ended with {code!r}")
    if hook and not hook.used:
        seen.other.setdefault("all", "the changed module is not imported by these tests")
    return {"passed": seen.passed, "asserted": seen.asserted, "other": seen.other}


class _Seen:
    """A pytest plugin that sorts what happened."""

    def __init__(self) -> None:
        self.passed: list[str] = []
        self.asserted: dict[str, str] = {}
        self.other: dict[str, str] = {}

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.when == "call" and report.passed:
            self.passed.append(report.nodeid)
        if report.skipped:
            self.other[report.nodeid] = "skipped"

    def pytest_exception_interact(self, call: Any, report: Any) -> None:
        error = call.excinfo.value
        words = f"{type(error).__name__}: {error}"[:500]
        right = getattr(report, "when", None) == "call" and _is_assertion(error)
        (self.asserted if right else self.other)[report.nodeid] = words


def _is_assertion(error: BaseException) -> bool:
    import pytest

    if isinstance(error, BaseExceptionGroup):
        return all(_is_assertion(part) for part in error.exceptions)
    return isinstance(error, AssertionError | pytest.fail.Exception)


class _Hook(MetaPathFinder):
    """Finds one file's module with another source."""

    def __init__(self, file: str, source: str) -> None:
        self._file, self._source, self.used = file, source, False
        self._name = ".".join(Path(file).relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")

    def find_spec(self, name: str, path: Sequence[str] | None, target: object = None) -> ModuleSpec | None:
        if name != self._name:
            return None
        spec = PathFinder.find_spec(name, path)
        if spec is None or spec.origin != self._file:
            raise RuntimeError(f"{name}: found {spec and spec.origin}, not {self._file}")
        spec.loader = _Loader(name, self._file, self._source)
        self.used = True
        return spec


class _Loader(SourceFileLoader):
    def __init__(self, name: str, file: str, source: str) -> None:
        super().__init__(name, file)
        self._source = source

    def get_code(self, fullname: str) -> Any:
        return compile(self._source, self.path, "exec", dont_inherit=True)


def _print_table() -> int:
    """Run all mutants on two workers of each kind; 1 if one lived."""
    from tests.privacy.mutants import table, table_clients

    mutants = (*table.MUTANTS, *table_clients.MUTANTS)
    began, lived = time.monotonic(), 0
    for torch in (False, True):
        chosen = [mutant for mutant in mutants if mutant.torch == torch]
        if not chosen:
            continue
        free: SimpleQueue[Worker] = SimpleQueue()
        workers = [Worker(torch=torch) for _ in range(2)]
        for worker in workers:
            free.put(worker)

        def one(mutant: Mutant, free: SimpleQueue[Worker] = free) -> tuple[Mutant, str, float]:
            worker = free.get()
            try:
                outcome = worker.run(mutant, mutant.killers)
                return mutant, outcome.survived(mutant), outcome.seconds
            except ValueError as error:
                return mutant, str(error), 0.0
            finally:
                free.put(worker)

        with ThreadPoolExecutor(2) as threads:
            for mutant, why, seconds in threads.map(one, chosen):
                lived += bool(why)
                killers = ", ".join(killer.removeprefix("privacy/") for killer in mutant.killers)
                print(f"{'LIVED ' if why else 'killed'} {seconds:5.2f} s  {mutant}  <-  {why or killers}", flush=True)
        for worker in workers:
            worker.close()
    print(f"{len(mutants)} mutants, {lived} not killed as they must be, {time.monotonic() - began:.0f} s")
    return 1 if lived else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        _serve(sys.argv[2:])
    else:
        sys.exit(_print_table())
