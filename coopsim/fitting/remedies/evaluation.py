"""Remedy "evaluation": an evaluation does not keep its outputs on the card, or keeps less of them."""

import ast
from collections.abc import Iterator
from pathlib import Path

from coopsim.base.text import human
from coopsim.base.types import CoopsimError
from coopsim.fitting.bench import Bench
from coopsim.fitting.changes import Changes
from coopsim.fitting.editing import texts
from coopsim.fitting.editing.edits import Edit, abbreviated, lines
from coopsim.fitting.remedy import Remedy
from coopsim.run.launch import host_limit
from coopsim.run.records_memory import Holder

_PREPROCESS = "preprocess_logits_for_metrics"


def is_the_cause(bench: Bench) -> bool:
    """Whether an evaluation that keeps its outputs runs out of the card's memory, and the steps do not."""
    report = bench.survey.report
    steps = (of for name, of in report.phases.items() if name not in ("evaluation", "generation"))
    training = report.context_bytes + max((of.peak_allocated_bytes for of in steps), default=0)
    return report.evaluation.grows_bytes > 0 and training <= bench.limit_bytes < bench.survey.needs_bytes


def propose(bench: Bench) -> None:
    """Propose each remedy that may suffice.

    For Hugging Face's Trainer they are: to keep the ids of the largest logits only; to move the outputs of each batch
    to the host. For lists of the script's own: to move what is appended to the host, of all and else of each. Nothing
    is moved there that is larger than what is free.
    """
    of = bench.survey.report.evaluation
    kept, left = of.grows_bytes * of.batches, (host_limit.free() or (1 << 62, 0))[0]
    found: list[Remedy] = []
    for proposal, copies in _proposals(bench):
        if any(set(proposal.edits) < set(done.edits) for done in found):
            continue
        if kept * copies > left:
            nbytes = human(int(kept * min(copies, 1)))
            bench.note(
                f"{', '.join(proposal.lines)} was not tried: it keeps {nbytes} in the host's memory"
                f"{', and twice that while it puts them together' * (copies > 1)}; {human(left)} are free"
            )
            continue
        outcome = bench.tried(proposal)
        if outcome.done is not None:
            found.append(outcome.done)
        elif outcome.failure:
            bench.note(f"{proposal.text}: {outcome.failure}")


def _proposals(bench: Bench) -> Iterator[tuple[Remedy, float]]:
    """Propose remedies, each with how many copies of all outputs there are on the host, or which part of them."""
    arguments = bench.survey.given.arguments
    if arguments is not None and arguments.by == "lines":
        call = _trainer(arguments.file)
        if call is not None:
            value = "lambda logits, labels: (logits[0] if isinstance(logits, tuple) else logits).argmax(-1)"
            one = Edit(arguments.file, call.lineno, _name(call), ((_PREPROCESS, -1, value),))
            text = "keep the ids of the largest logits only; compute_metrics gets them as its predictions"
            yield from _proposal(bench, text, [one], 0)
        two = Edit(arguments.file, arguments.line, arguments.type, (("eval_accumulation_steps", -1, "1"),))
        yield from _proposal(bench, "move the outputs of each batch to the host", [two], 2)
    lists = {}  # of the script's own, each with the edit that moves what is appended to it, and its bytes
    for kept in bench.survey.report.evaluation_keeps:
        file = _file(bench, kept)
        if file:
            line = int(kept.place.rpartition(":")[2])
            lists[kept.name] = Edit(file, line, "append", (("", 0, "{}.cpu()"),)), kept.bytes
    total = sum(nbytes for _, nbytes in lists.values())
    # What is compared with each other, such as outputs and labels, must be on one device.
    for names in [tuple(lists)] * (len(lists) > 1) + [(name,) for name in lists]:
        text = f"keep {' and '.join(names)} in the host's memory"
        share = sum(lists[name][1] for name in names) / max(total, 1)
        yield from _proposal(bench, text, [lists[name][0] for name in names], share)


def _proposal(bench: Bench, text: str, edits: list[Edit], copies: float) -> Iterator[tuple[Remedy, float]]:
    try:
        said = lines(edits) if edits[0].name == "append" else tuple(abbreviated(edit) for edit in edits)
    except CoopsimError:
        return
    yield bench.proposal("evaluation", text, said, Changes(printed=(text,)), same=True, edits=tuple(edits)), copies


def _trainer(file: str) -> ast.Call | None:
    """The only call of a trainer in a file, if it has metrics to compute and no function of its own for logits."""
    calls = [n for n in ast.walk(ast.parse(texts.read(file))) if isinstance(n, ast.Call)]
    found = [call for call in calls if _name(call).endswith("Trainer")]
    given = {keyword.arg: keyword.value for keyword in found[0].keywords} if len(found) == 1 else {}
    own = isinstance(given.get(_PREPROCESS), ast.Name | ast.Attribute | ast.Lambda)
    return found[0] if "compute_metrics" in given and not own and None not in given else None


def _name(call: ast.Call) -> str:
    return str(getattr(call.func, "attr", getattr(call.func, "id", "")))


def _file(bench: Bench, one: Holder) -> str:
    """The path of the script, if a variable's line is in it; "" if not."""
    name = one.place.partition(":")[0]
    return next((word for word in bench.script.command if word and Path(word).name == name), "")
