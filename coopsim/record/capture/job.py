"""A job: what to capture. The parent sends it to the child."""

import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from coopsim.base.capture_options import CaptureOptions
from coopsim.base.option import declared

#: Options in the order in which a trace's command has them; others come after these.
_SHOWN = (
    "device",
    "precision",
    "batch",
    "optimizer",
    "amp",
    "attention",
    "gradients",
    "steps",
    "warmup",
    "masks",
    "workspaces",
    "name",
)
#: Options that change no trace.
_HIDDEN = ("passes", "limit")


@dataclass(frozen=True)
class Job(CaptureOptions):
    """What to record, where to write it, and how (CaptureOptions).

    target: the name of a reference model (models.names()), or path/to/file.py:function, where the function takes no
    arguments and does one training step on the device "cuda". out: the trace file. card: the GPU (`coopsim list
    hardware`) that is imitated and whose rates give the costs.
    """

    target: str
    out: str | os.PathLike[str]
    card: str = "a100-80gb"

    def absolute(self) -> "Job":
        """Return the job with absolute paths, for a process in another folder."""
        return replace(self, out=str(Path(self.out).absolute()))

    def to_json(self) -> str:
        """Return the job as one line of JSON. Its paths must be strings, as `absolute` makes them."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Job":
        """Read the job from what `to_json` returned."""
        return cls(**json.loads(text))

    @property
    def is_file(self) -> bool:
        """Whether the target is a function in a file, and not a reference model."""
        return self.target.endswith(".py") or ".py:" in self.target

    @property
    def command(self) -> str:
        """The command line for this job, without defaults, folders and the output file."""
        plain = Job(self.target, self.out)
        words = ["coopsim capture", self.target.rpartition("/")[2]]
        others = [name for name in declared(CaptureOptions) if name not in (*_SHOWN, *_HIDDEN)]
        for field, option in (("card", "gpu"), *((f, f) for f in (*_SHOWN, *others))):
            value = getattr(self, field)
            if value != getattr(plain, field):
                words.append(f"--{option} {value}")
        return " ".join(words)
