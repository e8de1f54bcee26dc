"""What one process of a script reports, in types; it crosses to the process that started it as JSON."""

import json
from dataclasses import asdict, dataclass

from coopsim.base.typed import read
from coopsim.run.records import ScriptError, ValueRead
from coopsim.run.script_figures import ScriptFigures


@dataclass(kw_only=True)
class ProcessReport(ScriptFigures):
    """What a process was, did and took; the probes (probes/) fill it, each its own fields.

    `used`: whether it used the GPU; if not, only `versions`, `unmet`, `error` and `failure` say anything. `unmet`: why
    it cannot be observed on the phantom GPU, "" if it can; `compile_unmet`: why a graph of torch.compile could not be
    compiled here. `failure`: why watching it failed. `compile_asked`: whether a compiled function was called.
    `gave_up`: memory ran out in training, and no optimizer step followed. `last_value_read`: the last read of a value
    that only a card would have. `trace`: what became of the trace (trace.py). `graphs_off`: Inductor was kept from
    making CUDA graphs.
    """

    used: bool = False
    unmet: str = ""
    error: ScriptError | None = None
    failure: str = ""
    gave_up: bool = False
    compile_asked: bool = False
    compile_unmet: str = ""
    last_value_read: ValueRead | None = None
    trace: str = ""
    graphs_off: bool = False

    def message(self) -> str:
        """Return the report as JSON, for `read`."""
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, message: str) -> "ProcessReport":
        """Return the report that `message` was made of."""
        found: ProcessReport = read(cls, json.loads(message))
        return found
