"""Numbers as people read them; privacy parameters are never rounded down."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedballot.core.numbers import NBSP, count, delta, epsilon, percent, scalar, seconds, size, votes

_FROM = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")


def value_of(text: str) -> float:
    match = re.fullmatch(r"(?:([\d.]+)×)?10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)", text)
    if match is None:
        return float(text.replace(",", ""))
    return float(match[1] or 1) * 10.0 ** int(match[2].translate(_FROM))


@given(st.floats(1e-6, 1e6))
def test_epsilon_is_rounded_up_by_less_than_one_percent(value: float) -> None:
    assert value * (1 - 1e-8) <= value_of(epsilon(value)) <= value * 1.0101


@given(st.floats(1e-12, 1.0))
def test_delta_is_rounded_up_by_less_than_one_percent(value: float) -> None:
    assert value * (1 - 1e-8) <= value_of(delta(value)) <= value * 1.0101


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (epsilon(4.3), "4.3"),
        (epsilon(4.300000001), "4.3"),
        (epsilon(4.301), "4.31"),
        (epsilon(0), "0"),
        (epsilon(None), "∞"),
        (epsilon(187_432.1), "187,433"),
        (delta(1e-3), "0.001"),
        (delta(1e-5), "10⁻⁵"),
        (delta(9.999e-6), "10⁻⁵"),
        (delta(2.5e-4), "2.5×10⁻⁴"),
        (delta(0), "0"),
        (delta(None), "–"),
        (percent(0.9754), f"97.5{NBSP}%"),
        (percent(None), "–"),
        (count(1000), "1,000"),
        (size(0), f"0{NBSP}B"),
        (size(999), f"999{NBSP}B"),
        (size(1_000), f"1{NBSP}kB"),
        (size(999_999), f"1{NBSP}MB"),
        (size(12_345_678), f"12.3{NBSP}MB"),
        (size(5e12), f"5000{NBSP}GB"),
        (seconds(0.0421), f"0.0421{NBSP}s"),
        (seconds(59.96), f"60{NBSP}s"),
        (seconds(185), f"3{NBSP}min 05{NBSP}s"),
        (seconds(7800), f"2{NBSP}h 10{NBSP}min"),
        (votes(-21.8), "−22"),
        (votes(2.65), "+2.6"),
        (scalar(True), "yes"),
        (scalar({}), "–"),
        (scalar(""), "–"),
        (scalar({"mean": 0.5}), "mean 0.5"),
        (scalar(list(range(20))), "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, … (20 in all)"),
    ],
)
def test_examples(written: str, expected: str) -> None:
    assert written == expected
