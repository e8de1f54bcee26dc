"""Measure one part: `python -m coopsim.calibrate.measure PART`.

Reads the keys of what has been measured from stdin, a JSON list. Writes JSON lines to stdout: first what the GPU is,
then a row per measurement, {"key", "row"}, or {"key", "failed"}, why it could not be made. A part whose measurements
need a process each ends after one. An error that ends the process is a line with "error".
"""

import importlib
import json
import os
import sys
from typing import Any

from coopsim.calibrate.parts import PARTS


def main() -> None:
    """Measure what is left of the part."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print is no row

    def say(**what: Any) -> None:
        print(json.dumps(what), file=out, flush=True)

    part, done = PARTS[sys.argv[1]], set(json.load(sys.stdin))
    try:
        from coopsim.calibrate import on_card

        say(card=on_card.facts())
    except (ImportError, OSError) as e:
        say(error=f"torch cannot be imported here, which a GPU needs with all its libraries: {_first(e)}")
        return
    except RuntimeError as e:
        say(error=_first(e))
        return
    import torch

    if part.timed:
        on_card.ramp_up()
    for key, call in importlib.import_module(f"coopsim.calibrate.measure_{part.module}").cases():
        if key in done:
            continue
        try:
            say(key=key, row=call())
        except (RuntimeError, NotImplementedError) as e:  # too large for this card, or not there in this torch
            say(key=key, failed=_first(e)[:200])
        if part.apart:
            break
        torch.cuda.empty_cache()
    out.close()
    os._exit(0)  # a normal exit can abort in autograd's threads, which Python ends while they wait


def _first(error: Exception) -> str:
    """The first line of what an error says."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


if __name__ == "__main__":
    main()
