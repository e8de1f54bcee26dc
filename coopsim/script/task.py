"""What the processes of a script are to do besides running it: the message from the parent to each of them."""

import json
import os
from dataclasses import asdict, dataclass

FOLDER, TASK = "COOPSIM_SCRIPT_FOLDER", "COOPSIM_SCRIPT_TASK"


@dataclass(frozen=True)
class Task:
    """`card` is "" on the machine's own devices, where nothing is watched.

    `snapshot`, `trace` and `requests` are files to write, "" for none; they exclude each other.

    `steps` steps go into the trace, after `warmup` ones. `command` is what the trace says it was made with.
    `ranks` is "" unless the process is a rank of a job: "alone", "together" with the others, or a "stage" of a
    pipeline, alone but for what `messages` say (ranks/messages.py); then it is `rank` of `world`.
    `guest` is a module with a GUEST (guest.py), made once torch is there with what the guest is `told`;
    what its result's end() gives goes into the report.
    `masks` says what masks keep (observe/data/masks.py).
    `explains` is off where running out of memory is nothing unusual: nobody looks at what was alive then.
    """

    card: str
    precision: str = "tf32"
    snapshot: str = ""
    trace: str = ""
    requests: str = ""
    steps: int = 1
    warmup: int = 2
    command: str = ""
    traceback: bool = True
    ranks: str = ""
    rank: int = 0
    world: int = 1
    pipeline: tuple[int, ...] = ()
    present: tuple[int, ...] = ()
    messages: str = ""
    guest: str = ""
    told: str = ""
    explains: bool = True
    masks: str = ""

    def variables(self, folder: str) -> dict[str, str]:
        """The environment that carries it. Every process leaves its report in `folder`."""
        return {FOLDER: folder, TASK: json.dumps(asdict(self))}

    @classmethod
    def here(cls) -> tuple["Task", str]:
        """The task of this process, and the folder for its report."""
        return cls(**json.loads(os.environ[TASK])), os.environ[FOLDER]
