"""What one run of the script as it is tells: its model, its optimizers, what a step costs."""

from dataclasses import dataclass, field, replace
from typing import Any

from coopsim.fit.given import Given
from coopsim.script import Report


@dataclass(frozen=True)
class Op:
    """What all calls of an op in a block's forward pass cost, and the bytes that they make."""

    name: str
    ns: int
    nbytes: int


@dataclass(frozen=True)
class Block:
    """A module that can be recomputed. kept_bytes: what its forward pass keeps beyond its result.

    own: the model has means of its own to recompute it. cached: it is given a cache of keys and values, which these
    means turn off. statistics: it keeps running statistics (batch normalisation). ops: of one forward pass of a block
    that is in no other. root: the number of its model.
    """

    name: str
    kept_bytes: int
    own: bool
    cached: bool
    statistics: bool
    ops: tuple[Op, ...] = ()
    root: int = 0


@dataclass(frozen=True)
class Model:
    """A model of the script. number: of its models, in the order of first calls.

    name, file: the user's name of it, and where it has that; "" if that is not known. prefix: what stands before the
    names of modules that the user does not write (a wrapper's). batch: the first size of its input, if it is known.
    sharded: by FSDP2.
    levels: repeated blocks; then, if these hold repeated blocks, those. trained: an optimizer has parameters of it.
    floats: its input is of floating point. families: libraries that its class comes from (transformers, peft).
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
    levels: tuple[tuple[Block, ...], ...]
    trained: bool = True
    floats: bool = False
    families: tuple[str, ...] = ()
    alone: bool = True

    @property
    def variable(self) -> str:
        """What lines to paste call it."""
        return self.name or ("model" if self.alone else self.type.lower())

    @property
    def keeps(self) -> bool:
        """Does it keep anything for a backward pass? What is frozen may, between the loss and what is trained."""
        return any(block.kept_bytes > 0 for level in self.levels for block in level)


@dataclass(frozen=True)
class Optimizer:
    """One that stepped, and the user's line that made it. has_fused: PyTorch has a fused kernel for it.

    state_bytes: what its state takes after the first step.
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
    """A call of FullyShardedDataParallel or fully_shard, and the user's line with it; "" if a library has it.

    keeps: what does not keep layers gathered, in place of what the call says; "" if it does not. unlimited: gathers
    ahead have no limit. ahead: the arguments by which something is gathered ahead that need not be.
    """

    type: str
    keeps: str
    unlimited: bool
    ahead: tuple[str, ...]
    file: str
    line: int


@dataclass(frozen=True)
class Survey:
    """Of a run with memory enough. needs_bytes: the smallest memory for its requests, context included.

    models: those that the optimizers train, the largest first, and then others whose blocks keep something.
    trains: it has backward passes. adds_up: more of them than steps. step_ns, optimizer_ns: costs. clock_step_ns: a
    step's time by the phantom's clock. logits_bytes: the largest that a cross entropy was taken of. given: where the
    script says how large its batches are.
    """

    report: Report
    trains: bool
    adds_up: bool
    needs_bytes: int
    models: tuple[Model, ...]
    optimizers: tuple[Optimizer, ...]
    sharding: tuple[Sharding, ...]
    zeroed: tuple[tuple[str, int], ...]
    skips: bool
    trainer: bool
    step_ns: float
    optimizer_ns: float
    clock_step_ns: float
    peak_in_optimizer: bool
    logits_bytes: int
    basis: str
    given: Given = field(default_factory=Given)

    @property
    def model(self) -> Model | None:
        """The largest of those that are trained."""
        return self.models[0] if self.models else None


def read(report: Report, needs_bytes: int) -> Survey:
    """What the guest in the process has found."""
    found = report.guest
    return Survey(
        report=report,
        trains=found["backwards"] > 0,
        adds_up=found["backwards"] > report.steps > 0,
        needs_bytes=needs_bytes,
        models=_models(found["models"]),
        optimizers=tuple(Optimizer(**o) for o in found["optimizers"]["stepped"]),
        sharding=tuple(Sharding(**call | {"ahead": tuple(call["ahead"])}) for call in found["sharding"]),
        zeroed=tuple((z["file"], z["line"]) for z in found["optimizers"]["zeroed"]),
        skips=found["optimizers"]["skips"],
        trainer=found["trainer"],
        step_ns=found["step_ns"],
        optimizer_ns=found["optimizer_ns"],
        clock_step_ns=found["clock_step_ns"],
        peak_in_optimizer=found["peak_in_optimizer"],
        logits_bytes=found["logits_bytes"],
        basis=found["basis"],
        given=Given.read(found["batches"], trainer=found["trainer"]),
    )


def _models(found: list[dict[str, Any]]) -> tuple[Model, ...]:
    largest = sorted(enumerate(found), key=lambda m: (not m[1]["trained"], -m[1]["parameters"], m[0]))
    every = [_model(*one) for one in largest]
    kept = [model for model in every if model.trained or model.keeps] or every[:1]
    return tuple(replace(model, alone=len(kept) == 1) for model in kept)


def _model(number: int, found: dict[str, Any]) -> Model:
    levels = tuple(tuple(_block(number, block) for block in level) for level in found["levels"])
    keys = ("type", "batch", "half", "autocast", "sharded", "name", "prefix", "file", "trained", "floats")
    families = tuple(found["families"])
    return Model(number=number, levels=levels, families=families, **{key: found[key] for key in keys})


def _block(root: int, found: dict[str, Any]) -> Block:
    return Block(**found | {"root": root, "ops": tuple(Op(**op) for op in found["ops"])})
