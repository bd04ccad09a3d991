"""docs/result.md names every field that a result holds."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[2] / "docs" / "result.md"
FREE = {"settings", "versions", "rejected", "first_details"}  # their keys are the run's own


def fields(value: Any, under: str = "") -> Iterator[str]:
    if isinstance(value, list):
        value = value[0] if value else None
    if isinstance(value, dict) and under not in FREE:
        for key, inner in value.items():
            yield key
            yield from fields(inner, key)


def test_every_field_is_documented(result: dict[str, Any], release: dict[str, Any]) -> None:
    text = DOCS.read_text(encoding="utf-8")
    missing = [name for name in [*fields(result), *release] if f"`{name}`" not in text]
    assert not missing
