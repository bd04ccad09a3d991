"""Where a run was made: the system, its processors, and the commit of a clone."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import cache
from pathlib import Path

CODE = Path(__file__).parents[2]


@cache
def place() -> dict[str, str | int | None]:
    """System, processors and commit; nothing that names the machine or its user.

    Returns
    -------
    dict
        ``system``; ``cpus``, those that the process may use; ``commit`` of the clone that fedballot runs from, with
        ``+`` behind it where files differ from it, None where it runs from no clone.
    """
    return {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}".strip(),
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "commit": commit_of(CODE),
    }


def commit_of(folder: Path) -> str | None:
    """The commit of a clone, ``+`` behind it where tracked files differ; None where there is no clone, or no git."""
    if not (folder / ".git").exists():  # a folder above may be a clone of something else
        return None
    try:
        commit = _git(folder, "rev-parse", "HEAD")
        return commit + ("+" if _git(folder, "status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, timeout=5, check=True)
    return done.stdout.strip()
