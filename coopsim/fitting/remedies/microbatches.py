"""Remedy "micro-batches": the largest batch that fits and divides the wanted one, with accumulated gradients."""

from dataclasses import replace

from coopsim.base.types import CoopsimError
from coopsim.fitting.batch import Batch, Given
from coopsim.fitting.bench import Bench
from coopsim.fitting.changes import Changes
from coopsim.fitting.editing import edits as edit
from coopsim.fitting.editing.edits import Edit
from coopsim.fitting.options import BatchOptions
from coopsim.fitting.remedy import Remedy, with_options


def propose(bench: Bench, batch: Batch) -> None:
    """Propose the largest micro-batch that fits (`largest`), by options of the program or else by its calls."""
    if largest(bench, batch) is None and batch.given is not None and _options(bench, batch, batch.given) is not None:
        given = replace(batch.given, options=None)
        if given.wanted is not None:
            largest(bench, Batch((), given.wanted, given))


def largest(bench: Bench, batch: Batch, base: Remedy | None = None) -> Remedy | None:
    """Find the largest micro-batch that fits, over the divisors of the batch; None if none fits.

    Assumes that smaller ones need less memory. `base`: a remedy to combine it with.
    """
    parts = batch.parts()
    failing, fitting, best = -1, len(parts), None  # indices of `parts`, which descend
    failures: list[str] = []
    at, stride = 0 if base else may_suffice(bench, batch), 1
    while fitting - failing > 1:
        wanted = proposal(bench, batch, parts[at])
        outcome = bench.tried(base.with_(wanted) if base else wanted)
        if outcome.done is not None:
            fitting, best, at = at, outcome.done, at - stride
        else:
            failing, at = at, at + stride
            failures.append(outcome.failure)
        stride *= 2
        if not failing < at < fitting or (best is not None and failures):
            at = (failing + fitting) // 2 if best is not None else len(parts) - 1
    if best is None and base is None and failures and all(failures):
        bench.note(f"micro-batches: the script fails with every batch that was tried: {failures[0]}")
    return best


def may_suffice(bench: Bench, batch: Batch) -> int:
    """Return the index of the largest part that may suffice, if activations are in proportion to it; 0 if none may."""
    activations = bench.survey.activation_bytes
    saved = [activations * (1 - part / batch.wanted) for part in batch.parts()]
    return next((i for i, nbytes in enumerate(saved) if nbytes >= bench.over_bytes), 0)


def smallest(bench: Bench, batch: Batch) -> Remedy | None:
    """Return the remedy, not tried yet, with micro-batches of one sample; None if the wanted batch is one sample."""
    return proposal(bench, batch, batch.parts()[-1]) if batch.parts() else None


def proposal(bench: Bench, batch: Batch, part: int) -> Remedy:
    """Return the remedy, not tried yet, with micro-batches of `part` samples, as many as make up the wanted batch.

    They are set by edits of the script, by options in its command, or by a stand-in for the edits.
    """
    times, given = batch.wanted // part, batch.given or bench.survey.given
    text = f"batches of {part}, {times} per step (numbers change)"
    start = batch.template or bench.script.command
    options = _options(bench, batch, given)
    if options is not None and options.adds_up:
        text = f"batches of {part}, {times} per step, by options of the program (numbers change)"
        command = options.command(batch.command(part) if batch.template else start, times, part * (not batch.template))
        changes = Changes(printed=(f"batches of {part}",))
        remedy = bench.proposal("micro-batches", text, (), changes, same=False, command=command)
        return with_options(remedy, options.values(times, part * (not batch.template)))
    if batch.given is None or options is not None:
        command = batch.command(part) if options is None else options.command(start, times, part)
        edits, changes = given.adding_up(times), Changes(accumulate=times)
    else:
        command, edits = start, given.edits(times)
        itself = given.arguments is not None or given.adds_up is not None
        of_arguments = given.arguments is not None
        changes = Changes(divide=times, in_arguments=of_arguments, accumulate=1 if itself else times)
    remedy = bench.proposal("micro-batches", text, (), changes, same=False, command=command, edits=edits)
    typed = (remedy.typed,) if command != start else ()
    return replace(remedy, lines=(*typed, *_by_hand(bench, given, edits, times)))


def _options(bench: Bench, batch: Batch, given: Given) -> BatchOptions | None:
    """Return the options of the program that make the batches; None if no option sets their size.

    None, too, if the batch of all micro-batches would have to be set for several ranks: which of them share data is not
    known.
    """
    options = given.options
    if options is None or (options.is_unset and bench.survey.report.ranks):
        return None
    if options.adds_up and batch.template:
        return options
    in_file = not options.adds_up and options.batch is not None and bool(options.batch.file)
    return None if batch.template or in_file or options.wanted is None else options


def _by_hand(bench: Bench, given: Given, edits: tuple[Edit, ...], times: int) -> tuple[str, ...]:
    """The lines of the edits; where these are not certain, what they come to."""
    try:
        if edits:
            return edit.lines(edits)
    except CoopsimError:
        pass
    calls = [edit.abbreviated(one) for one in edits if one.name]
    if bench.survey.trainer:
        return tuple(calls) or (f"TrainingArguments(..., gradient_accumulation_steps={times})",)
    if given.adds_up is not None:
        return tuple(calls)
    more = ("# if it adds up gradients of several batches already: times their number",)
    return (
        *calls,
        "# in the loop, with your names; i counts batches, and zero_grad is called nowhere else",
        *(more if bench.survey.adds_up else ()),
        f"(loss / {times}).backward()",
        f"if (i + 1) % {times} == 0:",
        "    optimizer.step()",
        "    optimizer.zero_grad()",
    )
