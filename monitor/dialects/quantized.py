"""Counters printed with six digits: seen by how they are printed, not by what they are. It corrects nothing."""

from __future__ import annotations

from monitor.dialects.plan import Plan
from monitor.exposition import Page
from monitor.model.server import Engine

#: Below a million six digits are exact.
_EXACT_BELOW = 1e6
#: C++ streams and printf's %g print this many significant digits by default.
_DIGITS = 6
#: Counters above a million of which all must look rounded, on engines that print exact numbers in their own code (a
#: proxy in between may round): some exact count ends in zeros by chance.
_MIN_COUNTERS = 3


def rounding_of(plan: Plan, page: Page) -> float:
    """How far a counter may be from its printed value (tokens); 0 where counters are printed exactly.

    llama-server prints through a C++ stream, so 1234567 becomes `1.23457e+06` and moves in steps of 10.
    """
    values = page.values
    large = [line for line in plan.counter_lines if (value := values[line]) is not None and value >= _EXACT_BELOW]
    if len(large) < (1 if plan.engine is Engine.LLAMACPP else _MIN_COUNTERS):
        return 0.0
    if not all(_is_rounded(page.token(line)) for line in large):
        return 0.0
    return max(values[line] or 0.0 for line in large) * 10.0 ** (1 - _DIGITS)


def _is_rounded(token: str) -> bool:
    mantissa, exponent, _ = token.lower().partition("e")
    return bool(exponent) and len(mantissa.strip("+-").replace(".", "").lstrip("0")) <= _DIGITS
