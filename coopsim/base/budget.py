"""Amounts of memory as people write them: 6GiB, 24GB (10^9 bytes), 123456B, 60% of the peak; never a bare number."""

import math
import re

from coopsim.base.errors import several
from coopsim.base.types import CoopsimError

_BINARY = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_UNITS = _BINARY | {"KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_NEAR = {u[0].lower(): u for u in _BINARY if u != "B"} | {u.lower(): u for u in _UNITS}
_FORM = re.compile(r"([-+]?[0-9]*\.?[0-9]+)\s*([A-Za-z%]*)")


def parse(text: object, peak_bytes: int | None, what: str = "budget") -> int:
    """Bytes. A percentage is of `peak_bytes`, and refused if that is None. what: the option's name, for messages.

    >>> parse("60%", 1000), parse("1.5KiB", 1000), parse("24GB", None)
    (600, 1536, 24000000000)
    """
    hint = "write 6GiB, 4096MiB, 24GB or 123456B" + (", or 60%" if peak_bytes is not None else "")
    if not isinstance(text, str):
        raise _no_text(what, text, hint, shares=peak_bytes is not None)
    found = _FORM.fullmatch(text.strip())
    if not found:
        raise CoopsimError(f"{what} {text!r} is not an amount of memory; {hint}")
    number, unit = float(found[1]), found[2]
    if unit == "":
        tip = f'did you mean "{100 * number:g}%"?' if 0 < number <= 1 and peak_bytes is not None else hint
        raise CoopsimError(f"{what} {text!r} has no unit; {tip}")
    if unit == "%" and peak_bytes is not None:
        nbytes = number / 100 * peak_bytes
    elif unit in _UNITS:
        nbytes = number * _UNITS[unit]
    elif unit == "%":
        raise CoopsimError(f"{what} {text!r} is a share, of nothing that is known; {hint}")
    else:
        tip = f"did you mean {_NEAR[unit.lower()]}?" if unit.lower() in _NEAR else hint
        raise CoopsimError(f"{what} {text!r} has an unknown unit; {tip}")
    if not math.isfinite(nbytes) or nbytes < 1 or nbytes >= 1 << 60:
        raise CoopsimError(f"{what} must be between 1B and 1 EiB, not {text!r}")
    return int(nbytes)


def is_share(text: str) -> bool:
    """Whether a budget is a share of a peak, such as `50%`, and no amount."""
    return text.strip().endswith("%")


def sizes(budgets: object, peak_bytes: int) -> list[int]:
    """Bytes of one or several budgets: integers, or text as of `parse_list`.

    >>> sizes(["6KiB", 512], 1000), sizes("100%:80%:10%", 1000)
    ([6144, 512], [1000, 900, 800])
    """
    texts = [text for one in several(budgets) for text in ([f"{one}B"] if _is_whole(one) else parse_list(one))]
    return [parse(text, peak_bytes) for text in texts]


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def parse_list(text: object) -> list[str]:
    """A comma-separated list, with ranges of percentages FROM:TO:STEP, both ends included.

    >>> parse_list("6GiB,100%:80%:10%")
    ['6GiB', '100%', '90%', '80%']
    """
    if not isinstance(text, str):
        raise _no_text("budget", text, "write 6GiB, or 60%", shares=True)
    budgets: list[str] = []
    for part in text.split(","):
        ends = part.strip().split(":")
        if len(ends) == 1:
            budgets.append(ends[0])
            continue
        try:
            first, last, step = (float(e.removesuffix("%")) for e in ends)
        except ValueError:
            raise CoopsimError(f"budget range {part!r} is not FROM:TO:STEP in percent, such as 100%:30%:10%") from None
        if not all(e.endswith("%") for e in ends) or not (math.isfinite(first + last + step) and step > 0):
            raise CoopsimError(f"budget range {part!r} is not FROM:TO:STEP in percent, such as 100%:30%:10%")
        n = math.floor(abs(last - first) / step + 1e-9) + 1
        if n > 1_000_000:
            raise CoopsimError(f"budget range {part!r} has {n} points; a million is the most")
        sign = 1 if last >= first else -1
        budgets += [f"{round(first + sign * k * step, 9):g}%" for k in range(n)]
    return budgets


def memory_fraction(limit_bytes: int, total_bytes: int) -> float:
    """What set_per_process_memory_fraction must be told so that `limit_bytes` of a device is the limit, to the byte.

    PyTorch multiplies it by the total and cuts what follows the point, or takes the nearest number (2.14): of
    limit ÷ total a byte less may be left.
    """
    return min((limit_bytes + 0.25) / total_bytes, 1.0)


def _no_text(what: str, value: object, hint: str, *, shares: bool) -> CoopsimError:
    share = isinstance(value, float) and 0 < value <= 1 and shares
    tip = f'did you mean "{100 * value:g}%"?' if share else f"{hint}, as a string"  # type: ignore[operator]
    return CoopsimError(f"{what} {value!r} is not an amount of memory; {tip}")
