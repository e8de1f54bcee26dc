"""A job: what to capture. The parent sends it to the child."""

import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from coopsim.base.types import Precision
from coopsim.phantom.workspaces import Choice
from coopsim.record.capture.models import Amp, Attention, Gradients, Optimizer

#: Where a step is run: on the phantom GPU, or on a real one.
Where = Literal["phantom", "cuda"]

#: Fields that are options of the command line with the same name.
OPTIONS = (
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


@dataclass(frozen=True)
class Job:
    """What to record, and where to write it.

    target: the name of a reference model (models.names()), or path/to/file.py:function, where the function takes no
    arguments and does one training step on the device "cuda". out: the trace file. card: the GPU (`coopsim list
    hardware`) that is imitated and whose rates give the costs. precision: of float32 products, for the costs; a
    reference model is trained in it, too. None: TF32 for a reference model, and for a file as it has set it.

    batch, optimizer, amp (bf16: under autocast), attention and gradients (dropped or zeroed) are choices for a
    reference model, None being its own; a file makes its own. steps are recorded after `warmup` others, so that what is
    recorded is the steady state.

    device: "phantom"; "cuda", a real GPU, whose costs are then measured (the steps are repeated `passes` times for
    it). workspaces:
    what cuDNN asks for on the phantom GPU (phantom/workspaces.py). limit: whether memory runs out where the card's
    does; a step that fits gives the same trace with it and without. name: the label of the trace in tables and
    figures; "": the model's, or the file and function.
    """

    target: str
    out: str | os.PathLike[str]
    card: str = "a100-80gb"
    precision: Precision | None = None
    batch: int | None = None
    steps: int = 1
    warmup: int = 2
    optimizer: Optimizer | None = None
    amp: Amp | None = None
    attention: Attention | None = None
    gradients: Gradients | None = None
    device: Where = "phantom"
    passes: int = 5
    masks: str = ""
    workspaces: Choice = ""
    limit: bool = False
    name: str = ""

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
        for field, option in (("card", "gpu"), *((f, f) for f in OPTIONS)):
            value = getattr(self, field)
            if value != getattr(plain, field):
                words.append(f"--{option} {value}")
        return " ".join(words)
