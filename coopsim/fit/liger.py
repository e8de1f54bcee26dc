"""Remedy "loss": Liger's kernels, with logits and their gradient in chunks, or the gradient in place of the logits."""

from collections.abc import Iterator
from importlib import util

from coopsim.fit import chunks
from coopsim.fit.case import Case
from coopsim.fit.changes import Changes
from coopsim.fit.edits import Edit, lines
from coopsim.fit.remedy import Remedy
from coopsim.types import CoopsimError

#: Logits and logarithms, the gradients of both, and logits in another type: all that a fused loss may spare.
_FUSED = 5
_TEXT = "Liger's kernels, with {} (numbers change)"
_OWN_LOSS = (
    "from liger_kernel.transformers.functional import liger_cross_entropy",
    "torch.nn.functional.cross_entropy = liger_cross_entropy",
)


def find(case: Case) -> Iterator[Remedy]:
    """Yield the remedy if a run shows that the script fits with it; it is tried only where `proposal` gives one."""
    wanted = proposal(case)
    if wanted is not None and (done := case.verify(wanted)):
        yield done


def proposal(case: Case) -> Remedy | None:
    """Return the remedy, not tried yet; None if Liger is not installed, or cannot save enough by the logits' bytes.

    A model of transformers gets it by `use_liger_kernel=True` where a line makes the TrainingArguments (None if it is
    not certain which does), else by a call on the model. Any other model gets Liger's loss, in lines to be printed.
    """
    if util.find_spec("liger_kernel") is None or not case.survey.logits_bytes:
        return None
    survey, text = case.survey, _TEXT.format("the loss fused with the last layer")
    changes = Changes(printed=("liger",))
    model = survey.model
    if model is None or "transformers" not in model.families:
        if not chunks.may_suffice(case):
            return None
        text = _TEXT.format("the loss in the memory of the logits")
        return case.proposal("loss", text, _OWN_LOSS, changes, same=False, after_model=True)
    if _FUSED * survey.logits_bytes < case.over_bytes:
        return None
    made = survey.given.arguments
    if made is not None and made.by == "lines":
        edit = Edit(made.file, made.line, made.type, (("use_liger_kernel", -1, "True"),))
        try:
            said = lines((edit,))
        except CoopsimError:
            return None
        return case.proposal("loss", text, said, changes, same=False, edits=(edit,))
    own = (
        "from liger_kernel.transformers import _apply_liger_kernel_to_instance",
        f"_apply_liger_kernel_to_instance(model={model.variable})",
    )
    return case.proposal("loss", text, own, changes, same=False, after_model=True)
