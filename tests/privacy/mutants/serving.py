"""The process in which mutants live and die.

Its first process has the third-party packages imported, but nothing of fedballot. It forks a second, in which pytest
has collected all killers. That one forks for each mutant, puts the changed function in the place of the true one and
runs the killers: nothing is imported or collected again. It declines what this would not do justice to: a change
outside of functions, or of a function that ran while things were imported, whose traces would remain. For those the
first process forks; an import hook compiles the changed source there, and pytest runs from the start.
No file on disk is touched.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, TextIO

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
    "torch",
    "skops.io",
    "typer",
)
UNUSED = ("cacheprovider", "junitxml", "pastebin", "faulthandler", "unraisableexception", "threadexception")
OPTIONS = ("-o", "addopts=--import-mode=importlib", "-q", "--tb=no", "-s", *(f"-pno:{p}" for p in UNUSED))
DECLINED = {"declined": True}


def serve(files: Sequence[str]) -> None:
    """Answer requests, a line of JSON each, from standard input to standard output; the killers are in these files."""
    from _pytest.config import builtin_plugins

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what else is printed must not look like an answer
    for name in (*WARM, *(f"_pytest.{plugin}" for plugin in builtin_plugins)):
        importlib.import_module(name)
    assert not any(name.partition(".")[0] == "fedballot" for name in sys.modules)
    gc.freeze()  # forks need not look through what is imported
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # plugins of other packages take longer than the tests
    with _collected(files) as (ask, hear):
        for line in sys.stdin:
            began = time.monotonic()
            ask.write(line)
            ask.flush()
            answer = json.loads(hear.readline())
            if answer == DECLINED:
                answer = _in_a_fork(json.loads(line), _from_the_start)
            answers.write(json.dumps({**answer, "seconds": time.monotonic() - began}) + "\n")
            answers.flush()


@contextlib.contextmanager
def _collected(files: Sequence[str]) -> Iterator[tuple[TextIO, TextIO]]:
    """The second process: where to write requests, where to read answers."""
    asked, asks = os.pipe()
    heard, answers = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(asks)
            os.close(heard)
            _pytest_of(_Session(os.fdopen(asked), os.fdopen(answers, "w")), files)
        finally:
            os._exit(1)
    os.close(asked)
    os.close(answers)
    with os.fdopen(heard) as hear:
        with os.fdopen(asks, "w") as ask:
            yield ask, hear
        os.waitpid(child, 0)


def _pytest_of(plugin: object, arguments: Iterable[str]) -> int:
    import pytest

    gc.disable()  # nothing here lives long
    return int(pytest.main([*OPTIONS, *(f"tests/{argument}" for argument in arguments)], plugins=[plugin]))


def _same_examples() -> None:
    """Let hypothesis try the same examples every time, and make none smaller."""
    import hypothesis

    phases = [hypothesis.Phase.explicit, hypothesis.Phase.generate]
    hypothesis.settings.register_profile("mutants", derandomize=True, database=None, phases=phases, deadline=None)
    hypothesis.settings.load_profile("mutants")


class _Seen:
    """A pytest plugin that sorts what happened."""

    def __init__(self) -> None:
        self.passed: list[str] = []
        self.asserted: dict[str, str] = {}
        self.other: dict[str, str] = {}

    def pytest_collection(self) -> None:
        _same_examples()  # after tests/conftest.py, which has a profile of its own

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

    def answer(self) -> dict[str, Any]:
        return {"passed": self.passed, "asserted": self.asserted, "other": self.other}


def _is_assertion(error: BaseException) -> bool:
    import pytest

    if isinstance(error, BaseExceptionGroup):
        return all(_is_assertion(part) for part in error.exceptions)
    return isinstance(error, AssertionError | pytest.fail.Exception)


class _Session(_Seen):
    """The same plugin, which answers requests in place of running what was collected."""

    def __init__(self, asked: TextIO, answers: TextIO) -> None:
        super().__init__()
        self._asked, self._answers, self._called = asked, answers, set[CodeType]()

        def called(frame: Any, event: str, _: object) -> None:
            if event == "call":
                self._called.add(frame.f_code)

        sys.setprofile(called)

    def pytest_runtestloop(self, session: Any) -> bool:
        sys.setprofile(None)
        functions: dict[tuple[str, str, int], list[FunctionType]] = {}
        for found in gc.get_objects():
            if type(found) is FunctionType:
                functions.setdefault(_where(found.__code__), []).append(found)
        ran = {_where(code) for code in self._called}
        gc.freeze()
        for line in self._asked:
            request = json.loads(line)
            swaps = list(_changed_functions(request["file"], request["source"])) if request["file"] else []
            fit = all(old is not None and _where(old) in functions.keys() - ran for old, _ in swaps)
            items = [i for i in session.items if any(is_case(i.nodeid, killer) for killer in request["killers"])]
            known = all(any(is_case(i.nodeid, killer) for i in items) for killer in request["killers"])
            if not fit or not known or bool(request["file"]) != bool(swaps):
                answer = DECLINED
            else:
                put = [(functions[_where(old)], new) for old, new in swaps if old]
                answer = _in_a_fork(request, lambda _, put=put, items=items: self._run(put, items))
            self._answers.write(json.dumps(answer) + "\n")
            self._answers.flush()
        os._exit(0)

    def _run(self, put: Sequence[tuple[list[FunctionType], CodeType]], items: Sequence[Any]) -> dict[str, Any]:
        for functions, code in put:
            for function in functions:
                function.__code__ = code
        for item, following in zip(items, (*items[1:], None), strict=True):
            item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
        return self.answer()


def is_case(name: str, killer: str) -> bool:
    """Whether a test's id is the killer, or a case of it."""
    name = name.removeprefix("tests/")
    return name == killer or name.startswith(f"{killer}[")


def _where(code: CodeType) -> tuple[str, str, int]:
    return code.co_filename, code.co_qualname, code.co_firstlineno


def _changed_functions(file: str, source: str) -> Iterator[tuple[CodeType | None, CodeType]]:
    """Functions of modules and classes, as they are and as they become; None if something else changes."""
    true = compile(Path(file).read_text(encoding="utf-8"), file, "exec", dont_inherit=True)
    return _differing(true, compile(source, file, "exec", dont_inherit=True))


def _differing(old: CodeType, new: CodeType) -> Iterator[tuple[CodeType | None, CodeType]]:
    if old == new:
        return
    if old.co_flags & 1:  # optimised: a function, not the body of a module or class
        yield old, new
        return
    before, after = (
        (code.co_code, code.co_names, [c for c in code.co_consts if not isinstance(c, CodeType)]) for code in (old, new)
    )
    inner = [[c for c in code.co_consts if isinstance(c, CodeType)] for code in (old, new)]
    if before != after or len(inner[0]) != len(inner[1]):
        yield None, new
        return
    for pair in zip(*inner, strict=True):
        yield from _differing(*pair)


def _from_the_start(request: dict[str, Any]) -> dict[str, Any]:
    """Run pytest, with the changed module if there is one."""
    seen = _Seen()
    hook = _Hook(request["file"], request["source"]) if request["file"] else None
    if hook:
        sys.meta_path.insert(0, hook)
    code = _pytest_of(seen, request["killers"])
    if code not in (0, 1):
        seen.other.setdefault("all", f"pytest ended with {code!r}")
    if hook and not hook.used:
        seen.other.setdefault("all", "the changed module is not imported by these tests")
    return seen.answer()


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


def _in_a_fork(request: dict[str, Any], do: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    """What it answers, in a process of its own that does not outlive its patience."""
    reads, writes = os.pipe()
    with tempfile.TemporaryFile() as printed:
        child = os.fork()
        if child == 0:
            os.setsid()
            os.close(reads)
            for stream in (1, 2):
                os.dup2(printed.fileno(), stream)
            try:
                os.write(writes, json.dumps(do(request)).encode())
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


if __name__ == "__main__":
    serve(sys.argv[1:])
