"""What is said about privacy anywhere: no text claims more than (epsilon, delta) gives."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXTS = sorted(
    path
    for pattern in ("README.md", "docs/**/*.md", "fedballot/**/*")
    for path in ROOT.glob(pattern)
    if path.suffix in (".md", ".py", ".j2", ".css", ".toml")
)
FALSE = re.compile(
    r"(?<!log-)\bodds\b"  # a bound on odds, or on the odds of a belief, follows from delta = 0 only
    r"|except with (?:a )?(?:small )?probab"
    r"|(?:epsilon|ε)(?: of a release)? (?:does|may|might) not hold"
    r"|(?:does|do) not hold with probab"
    r"|with probability (?:at most |of )?(?:delta|δ) (?:the )?(?:epsilon|ε|bound|guarantee) (?:is|does|fails)",
    re.IGNORECASE,
)


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_text_takes_delta_for_the_probability_that_epsilon_fails(path: Path) -> None:
    text = " ".join(path.read_text(encoding="utf-8").split())
    assert [text[max(0, m.start() - 60) : m.end() + 60] for m in FALSE.finditer(text)] == []


@pytest.mark.parametrize(
    "words",
    [
        "the odds of one record being there do not change by more than a factor of 2.72",
        "changes by a factor, except with probability at most 0.001 (delta)",
        "except with a small probability δ",
        "probability that the epsilon does not hold",
    ],
)
def test_the_false_forms_are_found(words: str) -> None:
    assert FALSE.search(words) is not None
