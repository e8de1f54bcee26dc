"""Remedy "precision": forward passes in bfloat16, on cards with units for it."""

from collections.abc import Iterator

from coopsim.fit import arguments
from coopsim.fit.case import Case
from coopsim.fit.changes import Changes
from coopsim.fit.remedy import Remedy

_MANY = 4  #: for more models than this, one line for all is shown, instead of one line per model


def find(case: Case) -> Iterator[Remedy]:
    """Yield the remedy if a run shows that the script fits with it; it is tried only where `proposal` gives one."""
    wanted = proposal(case)
    if wanted is not None and (done := case.verify(wanted)):
        yield done


def proposal(case: Case) -> Remedy | None:
    """Return the remedy, not tried yet; None if the card has no units for bfloat16.

    None, too, if the largest model is in half precision or autocast already, or if there is no model.
    """
    model = case.survey.model
    if model is None or model.half or model.autocast or not case.trials.script.profile.bf16_tflops:
        return None
    if model.sharded:
        lines: tuple[str, ...] = (
            "from torch.distributed.fsdp import MixedPrecisionPolicy",
            "policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16)",
            "fully_shard(..., mp_policy=policy)",
        )
        text = "FSDP2 computes in bfloat16 (numbers change)"
        return case.proposal("precision", text, lines, Changes(sharded_half=True), same=False)
    text = "autocast to bfloat16 (numbers change)"
    for found in arguments.proposal(case, "precision", f"bf16: {text}", "bf16", Changes(), same=False):
        return found
    trained = [one for one in case.survey.models if one.trained and not (one.half or one.autocast or one.sharded)]
    changes = Changes(autocast=True, models=tuple(one.number for one in trained))
    if len(trained) > 1 and (len(trained) > _MANY or not all(one.name for one in trained)):
        lines = ('with torch.autocast("cuda", dtype=torch.bfloat16):  # around the forward pass',)
        return case.proposal("precision", text, lines, changes, same=False)
    names = [one.variable for one in trained]
    lines = tuple(f'{name}.forward = torch.autocast("cuda", dtype=torch.bfloat16)({name}.forward)' for name in names)
    return case.proposal("precision", text, lines, changes, same=False, after_model=True)
