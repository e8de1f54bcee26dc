"""A job: what is to be captured; the message from the parent to the child."""

import json
from dataclasses import asdict, dataclass
from typing import Literal

from coopsim.capture.models import Amp, Attention, Optimizer

Precision = Literal["tf32", "fp32"]

#: Where a step is run to be recorded: on the phantom GPU, on a real one, or on fake tensors.
Where = Literal["phantom", "cuda", "fake"]

#: Fields that are options of the command line by the same name.
OPTIONS = ("device", "precision", "batch", "optimizer", "amp", "attention", "steps", "warmup")


@dataclass(frozen=True)
class Job:
    """A capture. `target` is a reference model's name or file.py:function.

    `batch`, `optimizer`, `amp` and `attention` choose for a reference model; None means the model's own. `passes` is
    how often a real GPU runs the steps for their costs. `cost_from` is a file of measured costs,
    `temporaries_from` one of temporaries, "" for none.
    """

    target: str
    out: str
    card: str = "a100-80gb"
    precision: Precision = "tf32"
    batch: int | None = None
    steps: int = 1
    warmup: int = 2
    optimizer: Optimizer | None = None
    amp: Amp | None = None
    attention: Attention | None = None
    device: Where = "phantom"
    cost_from: str = ""
    passes: int = 5
    temporaries_from: str = ""

    def to_json(self) -> str:
        """As one line of JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Job":
        """The job that `to_json` wrote."""
        return cls(**json.loads(text))

    @property
    def is_file(self) -> bool:
        """Does the target name a function in a file, and not a model?"""
        return self.target.endswith(".py") or ".py:" in self.target

    @property
    def command(self) -> str:
        """The command that asks for this, with defaults left out, and without folders and the name of the result."""
        plain = Job(self.target, self.out)
        words = ["coopsim capture", self.target.rpartition("/")[2]]
        for field, option in (("card", "gpu"), *((f, f) for f in OPTIONS)):
            value = getattr(self, field)
            if value != getattr(plain, field):
                words.append(f"--{option} {value}")
        if self.cost_from:
            words.append(f"--cost-from {self.cost_from.rpartition('/')[2]}")
        if self.temporaries_from:
            words.append(f"--temporaries-from {self.temporaries_from.rpartition('/')[2]}")
        return " ".join(words)
