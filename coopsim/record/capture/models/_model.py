"""The description of a reference model, and the settings that can be chosen for it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from coopsim.base.capture_options import Amp, Attention, Gradients, Optimizer

#: The class of torch.optim and its options. SGD as in the scripts of Coop's authors, one op per parameter; Adam and
#: AdamW by PyTorch's defaults, one op for all parameters.
OPTIMIZERS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "sgd": ("SGD", {"lr": 1e-3, "momentum": 0, "foreach": False}),
    "momentum": ("SGD", {"lr": 1e-3, "momentum": 0.9, "foreach": False}),
    "adam": ("Adam", {"lr": 1e-3}),
    "adamw": ("AdamW", {"lr": 1e-3, "weight_decay": 1e-2}),
}


@dataclass(frozen=True)
class Setting:
    """How a model is trained. `amp` None: in float32; `attention` None: the model has no attention to choose.

    `gradients`: after the optimizer's step they are "dropped" (`set_to_none`), or "zeroed" in place. Coop's authors, in
    2022, ran DTR and DTE with dropped gradients, and Coop with zeroed ones.
    """

    batch: int
    optimizer: str  #: a class of torch.optim
    options: Mapping[str, Any]  #: arguments of the optimizer
    amp: Amp | None
    attention: Attention | None
    gradients: Gradients = "dropped"

    @property
    def header(self) -> dict[str, str | int]:
        """The settings, as entries of a trace's header."""
        words = [self.optimizer, *(f"{key}={value}" for key, value in self.options.items())]
        found: dict[str, str | int] = {"batch": self.batch, "optimizer": " ".join(words)}
        if self.gradients != "dropped":
            found["gradients"] = self.gradients
        return found | {key: value for key in ("amp", "attention") if (value := getattr(self, key)) is not None}


@dataclass(frozen=True)
class Model:
    """A model and its training step.

    `build(setting)` makes model, optimizer and data on the device "cuda", and returns the step, which takes no
    arguments. `batch`, `optimizer` and `attention` are the defaults (`attention` None: the model has none to choose);
    `optimizer_options` add to those of OPTIMIZERS where the default optimizer is used; `details` go into the header of
    its traces; `source` says whose setting it is.
    """

    name: str
    title: str
    batch: int
    source: str
    build: Callable[[Setting], Callable[[], object]]
    optimizer: Optimizer = "sgd"
    optimizer_options: Mapping[str, Any] = field(default_factory=dict)
    attention: Attention | None = None
    details: Mapping[str, str | int | float] = field(default_factory=dict)

    def setting(
        self,
        batch: int | None = None,
        optimizer: Optimizer | None = None,
        amp: Amp | None = None,
        attention: Attention | None = None,
        gradients: Gradients | None = None,
    ) -> Setting:
        """Return the setting with the given choices, and the model's defaults for those that are None."""
        kind, options = OPTIMIZERS[optimizer or self.optimizer]
        own = self.optimizer_options if optimizer in (None, self.optimizer) else {}
        how = gradients or "dropped"
        return Setting(batch or self.batch, kind, {**options, **own}, amp, attention or self.attention, how)

    def step(self) -> object:
        """Do one training step with the default setting; the first call builds the model.

        For a user's file: `step = MODEL.step`.
        """
        return self._built()

    @cached_property
    def _built(self) -> Callable[[], object]:
        return self.build(self.setting())
