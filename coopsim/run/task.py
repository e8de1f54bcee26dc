"""The task of a script's processes: what each of them is to do besides running the script, told by its parent."""

import json
import os
from dataclasses import asdict, dataclass

from coopsim.base.run_options import InProcess

FOLDER, TASK = "COOPSIM_SCRIPT_FOLDER", "COOPSIM_SCRIPT_TASK"
NEEDS_OTHERS = "needs-ranks"  #: a file in FOLDER, where a rank ran alone that cannot


@dataclass(frozen=True)
class Task(InProcess):
    """What a process is to do. `card` is "" on the machine's own devices, where nothing is watched.

    `snapshot`, `trace`, `requests` and `step_requests` are files to write, "" for none; they exclude each other.

    The trace has `steps` steps, after `warmup` ones, and names `command` as what it was made with. `ranks` is "" unless
    the process is a rank of a job, `rank` of `world`: "alone", or "together" with the others. `plugin` is a module with
    a PLUGIN (launch/plugin.py), which is called with `told` once torch is imported; what the plugin's `end` returns
    goes into the report. `explains` is off where running out of memory is expected: then what was alive at that moment
    is not reported. `ends_after` is the number of optimizer steps after which the script is ended; 0: it ends by
    itself. `watched` is off where no op is to be seen: only peaks, steps
    and what the allocator says are reported then, and data on the device are zeros.
    """

    card: str
    snapshot: str = ""
    trace: str = ""
    requests: str = ""
    step_requests: str = ""
    steps: int = 1
    warmup: int = 2
    command: str = ""
    traceback: bool = True
    ranks: str = ""
    rank: int = 0
    world: int = 1
    plugin: str = ""
    told: str = ""
    explains: bool = True
    ends_after: int = 0
    watched: bool = True

    def variables(self, folder: str) -> dict[str, str]:
        """Return the environment variables that pass the task on to processes, each of which reports to `folder`."""
        return {FOLDER: folder, TASK: json.dumps(asdict(self))}

    @classmethod
    def here(cls) -> tuple["Task", str]:
        """Return the task of this process, and the folder for its report. Raises KeyError if it has none."""
        return cls(**json.loads(os.environ[TASK])), os.environ[FOLDER]
