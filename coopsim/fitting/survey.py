"""The survey: what one run of the unchanged script shows of its models, its optimizers, and the cost of a step."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from coopsim.base import typed
from coopsim.fitting.batch import Given
from coopsim.fitting.editing import settings
from coopsim.fitting.options import Option
from coopsim.run import Report


@dataclass(frozen=True)
class OpSurvey:
    """The cost in ns of all calls of an op in a block's forward pass, and the bytes that they make."""

    name: str
    ns: int
    nbytes: int


@dataclass(frozen=True)
class ModelBlock:
    """A module that can be recomputed. kept_bytes: what its forward pass keeps beyond its result.

    own: whether the model can recompute it (gradient_checkpointing_enable). cached: whether it is given a cache of keys
    and values, which that turns off. statistics: whether it keeps running statistics (batch normalisation). ops: those
    of one forward pass, for outermost blocks only. root: the number of its model.
    """

    name: str
    kept_bytes: int
    own: bool
    cached: bool
    statistics: bool
    ops: tuple[OpSurvey, ...] = ()
    root: int = 0


@dataclass(frozen=True)
class ModelSurvey:
    """A model of the script. number: its index, in the order of first calls. type: the name of its class.

    name, file: the user's name for it, and the file with that name; "" if not known. prefix: the part of its modules'
    names that is a wrapper's, and that the user does not write. batch: the first size of its input; None if not known.
    half: whether all its parameters are half precision. autocast: whether it is called under autocast. sharded: whether
    by FSDP2. levels: its repeated blocks; then, if these contain repeated blocks, those. trained: whether an optimizer
    has parameters of it. floats: whether its input is of floating point. families: the libraries of its class and its
    bases (transformers, peft). alone: whether it is the only model of the survey.
    """

    number: int
    type: str
    batch: int | None
    half: bool
    autocast: bool
    sharded: bool
    name: str
    prefix: str
    file: str
    levels: tuple[tuple[ModelBlock, ...], ...]
    trained: bool = True
    floats: bool = False
    families: tuple[str, ...] = ()
    alone: bool = True

    @property
    def variable(self) -> str:
        """Its name in lines to paste: the user's or, if not known, "model"; its class's if there are several models."""
        return self.name or ("model" if self.alone else self.type.lower())

    @property
    def keeps(self) -> bool:
        """Whether it keeps values for a backward pass, as even a frozen model may, if gradients pass through it."""
        return any(block.kept_bytes > 0 for level in self.levels for block in level)


@dataclass(frozen=True)
class Optimizer:
    """An optimizer that stepped, and the user's line that made it. torch: whether it is one of torch.optim's.

    foreach: whether it updates many parameters at once. fused: its option. has_fused: whether PyTorch has fused kernels
    for it. state_bytes: what its state takes of the GPU after the first step.
    """

    type: str
    torch: bool
    file: str
    line: int
    foreach: bool
    fused: bool | None
    has_fused: bool
    state_bytes: int = 0


@dataclass(frozen=True)
class Sharding:
    """A call of FullyShardedDataParallel or fully_shard (`type`), and the user's line with it; file "" in a library.

    keeps: if the call keeps layers gathered after the forward pass, the value of the argument that would not; else "".
    unlimited: whether it sets no limit on all-gathers in flight. ahead: names of its arguments that make it prefetch.
    """

    type: str
    keeps: str
    unlimited: bool
    ahead: tuple[str, ...]
    file: str
    line: int


@dataclass(frozen=True)
class Survey:
    """What a run with enough memory showed. needs_bytes: the smallest memory for its requests, context included.

    trains: whether it has backward passes. adds_up: whether it has more of them than steps. models: those that are
    trained, the largest first, and then others that keep values. zeroed: (file, line) of calls of
    zero_grad(set_to_none=False). skips: whether an optimizer was given parameters without gradient. trainer: whether
    transformers' Trainer was imported. step_ns: the cost of a step by prices of ops. clock_step_ns: its time by the
    phantom's clock. peak_in_optimizer: whether memory peaked in an optimizer's step. logits_bytes: the largest input of
    a cross entropy. basis: what costs are computed from, and with which precision of float32 products. given: the
    script's own calls that set the batch size. step_ns_by_card: `step_ns` on every known card. deferred: (name, file,
    line) of calls with which FSDP does not reduce gradients after a batch, file "" in a library. options: those of the
    program's own command line.
    """

    report: Report
    trains: bool
    adds_up: bool
    needs_bytes: int
    models: tuple[ModelSurvey, ...]
    optimizers: tuple[Optimizer, ...]
    sharding: tuple[Sharding, ...]
    zeroed: tuple[tuple[str, int], ...]
    skips: bool
    trainer: bool
    step_ns: float
    clock_step_ns: float
    peak_in_optimizer: bool
    logits_bytes: int
    basis: str
    precision: str
    given: Given = field(default_factory=Given)
    step_ns_by_card: Mapping[str, float] = field(default_factory=dict)
    options: tuple[Option, ...] = ()
    deferred: tuple[tuple[str, str, int], ...] = ()

    @property
    def model(self) -> ModelSurvey | None:
        """The largest model that is trained, or else the first of the others; None if there is no model."""
        return self.models[0] if self.models else None

    @property
    def in_half(self) -> bool:
        """Whether the largest model, or TrainingArguments, compute in 16 bits; True if there is no model."""
        arguments = self.given.arguments
        return self.model is None or self.model.half or self.model.autocast or bool(arguments and arguments.half)

    @property
    def activation_bytes(self) -> int:
        """What activations take at the peak of allocated memory."""
        return self.report.peak_by_kind.get("activations", 0)


def read(report: Report, needs_bytes: int, command: tuple[str, ...] = ()) -> Survey:
    """Return the survey of a run, made of its report, which holds what the plugin in its process found (`plugin`).

    needs_bytes: the smallest memory for the run, context included. command: what ran, which may name files of settings.
    """
    found = report.plugin
    options: tuple[Option, ...] = typed.read(tuple[Option, ...], found["options"])
    names = {option.name for option in options}  # a parser may have read the files
    options += tuple(one for one in settings.options(command) if one.name not in names)
    return Survey(
        report=report,
        trains=found["backwards"] > 0,
        adds_up=found["backwards"] > report.steps > 0,
        needs_bytes=needs_bytes,
        models=_models(found["models"]),
        optimizers=typed.read(tuple[Optimizer, ...], found["optimizers"]["stepped"]),
        sharding=typed.read(tuple[Sharding, ...], found["sharding"]),
        zeroed=tuple((z["file"], z["line"]) for z in found["optimizers"]["zeroed"]),
        skips=found["optimizers"]["skips"],
        trainer=found["trainer"],
        step_ns=found["step_ns"],
        clock_step_ns=found["clock_step_ns"],
        peak_in_optimizer=found["peak_in_optimizer"],
        logits_bytes=found["logits_bytes"],
        basis=found["basis"],
        precision=found["precision"],
        given=Given.read(found["batches"], options, trainer=found["trainer"]),
        step_ns_by_card=found["step_ns_by_card"],
        options=options,
        deferred=tuple((call["name"], call["file"], call["line"]) for call in found["deferred"]),
    )


def _models(found: list[dict[str, Any]]) -> tuple[ModelSurvey, ...]:
    largest = sorted(enumerate(found), key=lambda m: (not m[1]["trained"], -m[1]["parameters"], m[0]))
    every = [_model(*one) for one in largest]
    kept = [model for model in every if model.trained or model.keeps] or every[:1]
    return tuple(replace(model, alone=len(kept) == 1) for model in kept)


def _model(number: int, found: dict[str, Any]) -> ModelSurvey:
    levels = [[block | {"root": number} for block in level] for level in found["levels"]]
    own = {f.name: found[f.name] for f in fields(ModelSurvey) if f.name in found}
    model: ModelSurvey = typed.read(ModelSurvey, own | {"number": number, "levels": levels})
    return model
