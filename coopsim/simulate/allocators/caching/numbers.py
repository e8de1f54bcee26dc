"""Numbers as the C++ standard library reads them: the longest prefix that is one; what follows is ignored."""

import re

from coopsim.base.types import CoopsimError

_SPACE = r"[ \t\n\v\f\r]*"
_INTEGER = re.compile(_SPACE + r"([+-]?)([0-9]+)")
_REAL = re.compile(_SPACE + r"([+-]?)(0[xX](?=\.?[0-9a-fA-F])[0-9a-fA-F]*\.?[0-9a-fA-F]*(?:[pP][+-]?[0-9]+)?)")
_DECIMAL = re.compile(
    _SPACE + r"[+-]?(?:[0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?|inf|nan)", re.I
)


def stoull(text: str) -> int:
    """An unsigned number of 64 bits; a negative one wraps around."""
    sign, digits = _match(_INTEGER, text)
    value = int(digits)
    if value >= 1 << 64:
        raise CoopsimError(f"{text!r} is out of range")
    return -value % (1 << 64) if sign == "-" else value


def stoi(text: str) -> int:
    """A signed number of 32 bits, put into an unsigned one of 64."""
    sign, digits = _match(_INTEGER, text)
    value = -int(digits) if sign == "-" else int(digits)
    if not -(1 << 31) <= value < 1 << 31:
        raise CoopsimError(f"{text!r} is out of range")
    return value % (1 << 64)


def stod(text: str) -> float:
    """A real number, decimal or hexadecimal."""
    if found := _REAL.match(text):
        value = float.fromhex(found.group(1) + found.group(2))
    elif found := _DECIMAL.match(text):
        value = float(found.group())
        finite = "inf" not in found.group().lower()
        digits = re.split("[eE]", found.group())[0]
        tiny = abs(value) < 2.2250738585072014e-308 and any(c in "123456789" for c in digits)
        if (value in (float("inf"), -float("inf")) and finite) or (tiny and "n" not in digits.lower()):
            raise CoopsimError(f"{text!r} is out of range")
    else:
        raise CoopsimError(f"{text!r} is not a number")
    return value


def _match(pattern: re.Pattern[str], text: str) -> tuple[str, str]:
    found = pattern.match(text)
    if not found:
        raise CoopsimError(f"{text!r} is not a number")
    return found.group(1), found.group(2)
