"""Truth values that a script reads from the device to branch on, though nobody has computed them.

They read as zeros, but where more is known of what they stand for:

- Of what would raise an error, or fail an assertion, nothing does: a run that goes well is looked at.
- Whether anything in a mask is true is answered so that the script goes on, and does what it does for some: `if
  mask.any():` holds, `if (token == end).any(): break` does not.
- A loop that waits for the value (`while not done.all():`) would never end. After SHORT iterations without a step of an
  optimizer it gets the other answer; after LONG, if something else may end it. Of a number nobody knows which would
  end the loop, so the script is stopped.
"""

import sys
from collections import Counter
from pathlib import Path
from types import FrameType

import torch

from coopsim.record.observe import syntax

SHORT, LONG = 500, 50_000
_OURS = str(Path(__file__).parents[2]) + "/"
_TORCH = str(Path(torch.__file__).parent) + "/"


class NeverEndsError(SystemExit):
    """Raised where a loop waits for a number that nobody computes; ends the script with exit code 2."""


class Decisions:
    """Answers a script that reads unknown values to branch on, and counts the iterations of loops that wait for them.

    `ended`: how often a loop got the other answer, by (file, line, iterations that it had waited). `endless`: why the
    script was stopped, in one line; "" if it was not.
    """

    def __init__(self) -> None:
        self._iterations: Counter[tuple[str, int]] = Counter()
        self.ended: Counter[tuple[str, int, int]] = Counter()
        self.endless = ""

    def step_ended(self) -> None:
        """Start to count all loops' iterations from 0 again, as an optimizer has stepped: the loops do go on."""
        self._iterations.clear()

    def truth(self, there: bool, *, maybe: bool, assumed: bool) -> bool:
        """Return the truth value that the script gets where it reads one that nobody has computed.

        `there` is what memory holds; it is returned unless the rules of this module say otherwise. `maybe`: the value
        says whether anything in a mask is true. `assumed`: it follows from what is assumed of masks.
        """
        frame = _reader()
        use = syntax.use(frame) if frame is not None else None
        if frame is not None and use is None:
            return self._by_caller(frame, there)
        if frame is None or use is None:
            return there
        answer = there
        if use.kind == "raise":
            answer = use.negated
        elif use.kind == "assert":
            answer = not use.negated
        elif (use.kind == "break" and (maybe or assumed)) or (use.kind == "exit" and maybe):
            answer = use.negated
        elif use.kind == "while" and maybe:
            answer = not use.negated
        elif use.kind == "guard" and maybe:
            answer = True
        return answer ^ self._is_over(frame, use)

    def flag(self) -> bool | None:
        """Return what each element of a mask of which nothing is known is to read as, if the script waits for it.

        To wait is to read it in a test that ends a loop, a function or the script; the answer makes the script go on,
        until the loop has waited for long enough. None if it does not wait, so that the mask is one that selects.
        """
        frame, alone = _reader(), True
        use = syntax.use(frame) if frame is not None else None
        if frame is not None and use is None:
            frame, use = _waiting_caller(frame)
            alone = False
        if frame is None or use is None or use.kind not in ("raise", "assert", "break", "exit", "while"):
            return None
        goes_on = not use.negated if use.kind in ("while", "assert") else use.negated
        return goes_on ^ self._is_over(frame, use, alone=alone)

    def number(self) -> None:
        """Note that the script reads an unknown number.

        Raises NeverEndsError, which ends the script, if a loop has waited for it for SHORT or LONG iterations (above).
        """
        frame = _reader()
        use = syntax.use(frame) if frame is not None else None
        if frame is None or use is None or not self._is_over(frame, use):
            return
        place, line, iterations = next(reversed(self.ended))
        self.ended.clear()
        self.endless = (
            f"{place}:{line}: this loop waits for a number that only a card computes: it has read it {iterations} "
            "times without a step of an optimizer, and would never end"
        )
        raise NeverEndsError(2)

    def _by_caller(self, frame: FrameType, there: bool) -> bool:
        """Return the answer where a function reads a value for a loop of its caller."""
        caller, use = _waiting_caller(frame)
        if caller is None or use is None:
            return there
        return there ^ self._is_over(caller, use, alone=False)

    def _is_over(self, frame: FrameType, use: syntax.Use, *, alone: bool = True) -> bool:
        """Count an iteration, and return whether the loop has waited for long enough."""
        if not use.line:
            return False
        key = frame.f_code.co_filename, use.line
        limit = SHORT if use.alone and alone else LONG
        self._iterations[key] += 1
        if self._iterations[key] <= limit:
            return False
        del self._iterations[key]
        self.ended[Path(key[0]).name, use.line, limit] += 1
        return True


def _waiting_caller(frame: FrameType) -> tuple[FrameType | None, syntax.Use | None]:
    """Return the frame whose loop a function that reads a value was called for, and how it goes on by that."""
    while not syntax.in_loop(frame) and frame.f_back is not None:
        frame = frame.f_back
        use = syntax.use(frame)
        if use is not None and use.line:
            return frame, use
    return None, None


def _reader() -> FrameType | None:
    """Return the frame that reads: the innermost that is neither coopsim's nor PyTorch's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith((_OURS, _TORCH)):
        frame = frame.f_back
    return frame
