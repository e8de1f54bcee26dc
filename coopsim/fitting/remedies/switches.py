"""Remedies that the program itself offers: options of its command line that speak of memory."""

import re
from collections.abc import Iterator
from importlib import util
from pathlib import Path

from coopsim.fitting.batch import Batch
from coopsim.fitting.bench import Bench
from coopsim.fitting.options import BUCKETS, CHECKPOINTING, COMPILE, OPTIMIZER, PRECISION, Option, about
from coopsim.fitting.remedies import checkpointing, microbatches
from coopsim.fitting.remedy import Remedy

_HALF = ("bf16", "bfloat16", "bf16-mixed", "amp_bf16", "bf16-true")
_OF_HALF = re.compile("16|half|amp|auto_?cast|mixed")  #: what a switch is called; not preserve_input_precision
_FEWER = 10  #: a bucket becomes so many times smaller
_LESS_STATE = {"adamw_8bit": 0.75, "adamw8bit": 0.75, "adam8bit": 0.75, "adafactor": 1.0}


def recompute(bench: Bench) -> Iterator[Remedy]:
    """Yield recomputation by the program's options, not tried yet: of most first, where there is a choice."""
    level = next(iter(checkpointing.levels(bench)), ())
    same = bool(level) and checkpointing.these(bench, level, level).same_numbers
    for option in about(bench.survey.options, CHECKPOINTING):
        for value in _turned_on(option, ("full", "block", "selective")):
            yield _proposal(bench, "checkpointing", option, value, same=same)


def smaller(bench: Bench) -> Iterator[Remedy]:
    """Yield smaller batches, not tried yet, the largest that may suffice first, where no option adds up gradients.

    Also where the program computes the batch of all micro-batches itself: what it is then, is not known.
    """
    options = bench.survey.given.options
    if options is None or options.batch is None or options.keeps_the_sum:
        return
    batch = Batch((), int(options.batch.value or 0))
    for part in batch.parts()[microbatches.may_suffice(bench, batch) :]:
        text = f"smaller batches, {batch.wanted // part} steps for one (numbers change)"
        yield _proposal(bench, "batch", options.batch, str(part), text=text)


def half(bench: Bench) -> Iterator[Remedy]:
    """Yield computing in bfloat16, not tried yet, on cards that do, if the script computes in float32."""
    if bench.survey.in_half or not bench.script.profile.bf16_tflops:
        return
    for option in about(bench.survey.options, PRECISION):
        if option.is_switch and not _OF_HALF.search(option.name):
            continue
        wanted: tuple[str, ...] = _HALF
        if not option.is_switch and not option.choices:
            own = "bf16" if "mixed" in option.name else "bf16-mixed" if "precision" in option.name else "bfloat16"
            wanted = (own,) if not any(part in str(option.value) for part in ("16", "half")) else ()
        for value in _turned_on(option, wanted):
            yield _proposal(bench, "precision", option, value, text="computes in 16 bits (numbers change)")


def optimizer(bench: Bench) -> Iterator[Remedy]:
    """Yield optimizers with less state than Adam, not tried yet, whose saving may suffice."""
    made = bench.survey.optimizers
    if not made or not all("adam" in one.type.lower() for one in made):
        return
    state = sum(one.state_bytes for one in made)
    has_8bit = util.find_spec("bitsandbytes") is not None
    for option in about(bench.survey.options, OPTIMIZER):
        wanted = tuple(name for name, saves in _LESS_STATE.items() if state * saves >= max(bench.over_bytes, 1))
        if option.is_switch:
            wanted = wanted if has_8bit and "8" in option.name else ()
        elif not option.choices:
            wanted = tuple(_as_spelled(str(option.value), name) for name in wanted if name == "adafactor")
        usable = [value for value in _turned_on(option, wanted) if has_8bit or "8" not in value]
        for value in usable[:1]:
            yield _proposal(bench, "optimizer", option, value, text="keeps less state (numbers change)")


def _as_spelled(value: str, name: str) -> str:
    """Return a name spelled as another is: "torch.optim.AdamW" makes "torch.optim.Adafactor" of "adafactor"."""
    path, dot, last = value.rpartition(".")
    return f"{path}{dot}{name.capitalize() if last[:1].isupper() else name}"


def buckets(bench: Bench) -> Iterator[Remedy]:
    """Yield gradients reduced in buckets of a tenth, not tried yet, where buckets take memory at the peak."""
    if bench.survey.report.peak_by_kind.get("buckets"):
        for option in about(bench.survey.options, BUCKETS):
            if type(option.value) is int and option.value >= _FEWER:
                text = "reduces gradients in smaller buckets, which may change last bits"
                yield _proposal(bench, "settings", option, str(option.value // _FEWER), text=text)


def compiled(bench: Bench) -> Iterator[Remedy]:
    """Yield compilation, not tried yet, of a script that compiles nothing."""
    if not bench.survey.report.compiled_graphs:
        for option in about(bench.survey.options, COMPILE):
            if option.is_switch and option.value is not True:
                text = "fuses kernels, which may change last bits"
                yield _proposal(bench, "compiled", option, "True", text=text)


def strongest(bench: Bench, remedies: Iterator[Remedy]) -> Remedy | None:
    """Return the first of remedies with which the script is not known to fail, for combinations."""
    return next((remedy for remedy in remedies if not bench.failure(remedy)), None)


def _turned_on(option: Option, wanted: tuple[str, ...]) -> list[str]:
    """Return the values, of those wanted, that the option may have and has not; "True" for a switch that is off."""
    if not wanted or option.value is True:
        return []
    if option.is_switch:
        return ["True"]
    may = {choice.lower(): choice for choice in option.choices}
    if not option.choices:
        return [value for value in wanted if len(wanted) == 1]
    return [may[value] for value in wanted if value in may and str(option.value).lower() != value]


def _proposal(bench: Bench, kind: str, option: Option, value: str, *, text: str = "", same: bool = False) -> Remedy:
    said = option.shown.rstrip("=") + ("" if option.is_switch else f" {value}")
    said += f" in {Path(option.file).name}" if option.file else ""
    about_it = text or ("recomputes" if same else "recomputes, which may change last bits")
    return bench.by_option(kind, f"{said} of the program: {about_it}", option, value, same=same)
