"""Lists pages of results that no longer stand:  python docs/stale.py

A page must name what made its tables, a script of benchmarks/ that exists or a ``fedballot`` command; options of that
script must still be there. A page written from a record, benchmarks/*.json, must be what the record gives today.
"""

from __future__ import annotations

import json
import re
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
WRITTEN = {  # page: the script that writes it, whose page() makes it of its record
    "docs/performance.md": "benchmarks/performance_page.py",
    "docs/results/own-data.md": "benchmarks/own_data.py",
}
TABLE = re.compile(r"^\|[-:| ]+\|$", flags=re.MULTILINE)
NAMED = re.compile(r"benchmarks/(\w+\.py)((?: [^`\n#\\]*(?:\\\n)?)*)")


def faults() -> Iterator[str]:
    """What is stale, a line each."""
    for page in [*sorted((ROOT / "docs" / "results").glob("*.md")), ROOT / "docs" / "performance.md"]:
        yield from faults_of_sources(page, ROOT)
    for page_name, script in WRITTEN.items():
        names = runpy.run_path(str(ROOT / script))
        if names["page"](json.loads(names["RECORD"].read_text())) != (ROOT / page_name).read_text():
            yield f"{page_name}: is not what {names['RECORD'].name} gives; write it anew with {script}"


def faults_of_sources(page: Path, root: Path) -> Iterator[str]:
    """What a page of tables says of its making that is not so."""
    text = page.read_text()
    named = NAMED.findall(text)
    if TABLE.search(text) and not named and not re.search(r"^(?:\w+=\S+ )*fedballot ", text, flags=re.MULTILINE):
        yield f"{page.name}: has tables, and names nothing that made them"
    for script, options in named:
        path = root / "benchmarks" / script
        if not path.exists():
            yield f"{page.name}: there is no benchmarks/{script}"
            continue
        code = path.read_text()
        for word in re.findall(r"(?<!\S)--[a-z][\w-]*", options):
            if f'"{word}"' not in code:
                yield f"{page.name}: benchmarks/{script} has no {word}"


if __name__ == "__main__":
    lines = list(faults())
    print("\n".join(lines) or "No page of results is stale.")
    sys.exit(bool(lines))
