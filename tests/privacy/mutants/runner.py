"""Mutation testing: change one line of the source in memory, and see the named tests fail; serving.py says how.

`python -m tests.privacy.mutants.runner` prints the table of all mutants; with `--lines` it only looks whether their
lines are still in the source, which `make check` does.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Self

from tests.privacy.mutants.serving import ROOT, is_case

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
    """

    file: str
    within: str
    line: str
    change: str
    breaks: str
    killers: tuple[str, ...]

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
        missed = [k for k in mutant.killers if not any(is_case(name, k) for name in self.asserted)]
        return f"lived, these passed: {', '.join(missed)}" if missed else ""


class Worker:
    """A warm process that forks for each of these mutants, or others that are alike; use it in a `with`."""

    def __init__(self, mutants: Sequence[Mutant]) -> None:
        files = sorted({killer.partition("::")[0] for mutant in mutants for killer in mutant.killers})
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.privacy.mutants.serving", *files],
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


def check_killers(worker: Worker, mutants: Sequence[Mutant]) -> None:
    """Fail unless all killers pass on the true source."""
    killers = sorted({killer for mutant in mutants for killer in mutant.killers})
    outcome = worker.run(None, killers, patience=300)
    assert (outcome.asserted, outcome.other) == ({}, {}) and len(outcome.passed) >= len(killers)


def _check_lines(mutants: Sequence[Mutant]) -> int:
    """Print each mutant whose line is not in the source any more; 1 if there is one."""
    gone = 0
    for mutant in mutants:
        try:
            mutant.source()
        except ValueError as error:
            print(error)
            gone = 1
    return gone


def _print_table(mutants: Sequence[Mutant]) -> int:
    """Run all mutants on two workers; 1 if one lived."""
    began, lived = time.monotonic(), 0
    free: SimpleQueue[Worker] = SimpleQueue()

    def one(mutant: Mutant) -> tuple[Mutant, str, float]:
        worker = free.get()
        try:
            outcome = worker.run(mutant, mutant.killers)
            return mutant, outcome.survived(mutant), outcome.seconds
        except ValueError as error:
            return mutant, str(error), 0.0
        finally:
            free.put(worker)

    with Worker(mutants) as first, Worker(mutants) as second, ThreadPoolExecutor(2) as threads:
        free.put(first)
        free.put(second)
        for mutant, why, seconds in threads.map(one, mutants):
            lived += bool(why)
            killers = ", ".join(killer.removeprefix("privacy/") for killer in mutant.killers)
            print(f"{'LIVED ' if why else 'killed'} {seconds:5.2f} s  {mutant}  <-  {why or killers}", flush=True)
    print(f"{len(mutants)} mutants, {lived} not killed as they must be, {time.monotonic() - began:.0f} s")
    return 1 if lived else 0


if __name__ == "__main__":
    from tests.privacy.mutants import table, table_clients

    all_mutants = (*table.MUTANTS, *table_clients.MUTANTS)
    sys.exit(_check_lines(all_mutants) if sys.argv[1:] == ["--lines"] else _print_table(all_mutants))
