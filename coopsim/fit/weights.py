"""Remedy "weights": weights in bfloat16, and with them gradients and the optimizer's state."""

from collections.abc import Iterator

from coopsim.fit.case import Case
from coopsim.fit.changes import Changes
from coopsim.fit.remedy import Remedy

#: Inputs in float32 must become bfloat16, too.
_INPUTS = (
    "half = lambda x: x.bfloat16() if torch.is_tensor(x) and x.is_floating_point() else x",
    "{0}.register_forward_pre_hook(lambda _, args: tuple(map(half, args)))",
)


def find(case: Case) -> Iterator[Remedy]:
    """Yield the remedy if a run shows that the script fits with it.

    Not tried where `proposal` gives none, or where half of the memory beside the context would not be enough to save.
    """
    survey = case.survey
    context = survey.report.context_bytes
    if case.over_bytes > (survey.needs_bytes - context) / 2:
        return
    wanted = proposal(case)
    if wanted is not None and (done := case.verify(wanted)):
        yield done


def proposal(case: Case) -> Remedy | None:
    """Return the remedy, not tried yet; None if the card has no bfloat16, or nothing is trained.

    None, too, if a trained model is sharded or in half precision already.
    """
    trained = [model for model in case.survey.models if model.trained]
    if not trained or not case.trials.script.profile.bf16_tflops or any(m.half or m.sharded for m in trained):
        return None
    lines: list[str] = []
    for model in trained:
        lines.append(f"{model.variable}.to(torch.bfloat16)")
        if model.floats:
            lines += (line.format(model.variable) for line in _INPUTS)
    changes = Changes(bf16_weights=True, models=tuple(model.number for model in trained))
    text = "weights and optimizer in bfloat16 (numbers change, small updates are lost)"
    return case.proposal("weights", text, tuple(dict.fromkeys(lines)), changes, same=False, after_model=True)
