"""Numbers as people read them. Privacy parameters are rounded up, never down."""

import math
from numbers import Integral

NBSP = "\u202f"  # the narrow no-break space, between a number and its unit
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def percent(fraction: float | None, digits: int = 1) -> str:
    """Write a fraction in 0..1 as a percentage; None is a dash."""
    return "–" if fraction is None else f"{100 * fraction:.{digits}f}{NBSP}%"


def count(value: float | int | None) -> str:
    """Write a whole number with commas between thousands; None is a dash."""
    return "–" if value is None else f"{round(value):,}"


def size(n_bytes: float | int | None) -> str:
    """Write a number of bytes in decimal units (1 kB = 1000 B); None is a dash."""
    if n_bytes is None:
        return "–"
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n_bytes >= factor * 0.9995:
            return f"{_three(n_bytes / factor)}{NBSP}{unit}"
    return f"{_three(n_bytes)}{NBSP}B"


def seconds(value: float | None) -> str:
    """Write a duration: 0.84 s, 41.2 s, 3 min 05 s, 2 h 10 min; None is a dash."""
    if value is None:
        return "–"
    if value < 60:
        return f"{_three(value)}{NBSP}s"
    whole = round(value)
    if whole < 3600:
        return f"{whole // 60}{NBSP}min {whole % 60:02d}{NBSP}s"
    return f"{whole // 3600}{NBSP}h {whole % 3600 // 60:02d}{NBSP}min"


def epsilon(value: float | None) -> str:
    """Write ε with three significant digits, rounded up; None (no finite ε) is ∞."""
    if value is None or math.isinf(value):
        return "∞"
    if value == 0:
        return "0"
    return f"{_ceil(value, 3):.3g}" if value < 999.5 else count(math.ceil(value))


def delta(value: float | None) -> str:
    """Write δ with three significant digits, rounded up, as 10⁻⁵ or 2.5×10⁻⁴ below 0.001; None is a dash."""
    if value is None:
        return "–"
    if value == 0:
        return "0"
    rounded = _ceil(value, 3)
    if rounded >= 0.001 * (1 - 1e-9):
        return f"{rounded:.3g}"
    mantissa, exponent = f"{rounded:.2e}".split("e")
    power = "10" + str(int(exponent)).translate(_SUPERSCRIPT)
    mantissa = mantissa.rstrip("0").rstrip(".")
    return power if mantissa == "1" else f"{mantissa}×{power}"


def votes(value: float) -> str:
    """Write a lead in votes with its sign: +35, −8.2."""
    written = f"{value:+.0f}" if abs(value) >= 9.5 else f"{value:+.1f}"
    return written.replace("-", "−")


def scalar(value: object) -> str:
    """Write any setting or measure: numbers to six digits, lists in short, nothing as a dash."""
    if value is None or value == "":
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, dict):
        return ", ".join(f"{key} {scalar(item)}" for key, item in value.items()) or "–"
    if isinstance(value, list | tuple):
        parts = [scalar(item) for item in value[:12]]
        return ", ".join(parts) + (f", … ({len(value)} in all)" if len(value) > 12 else "")
    return str(value)


def _three(value: float) -> str:
    if value == 0 or value >= 99.95:
        return f"{value:.0f}"
    return f"{value:.3g}"


def _ceil(value: float, digits: int) -> float:
    scale = 10.0 ** (digits - 1 - math.floor(math.log10(value)))
    # The tolerance keeps a target that a solver met to within float error (4.3000000001) at 4.3.
    return math.ceil(value * scale * (1 - 1e-9)) / scale


def is_whole(value: object) -> bool:
    """Whether it is a whole number, also one of NumPy's; True and False are none."""
    return isinstance(value, Integral) and not isinstance(value, bool)
