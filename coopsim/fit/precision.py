"""Forward passes in bfloat16, where the card computes in it."""

from collections.abc import Iterator

from coopsim.fit.case import Case
from coopsim.fit.changes import Changes
from coopsim.fit.remedy import Remedy


def find(case: Case) -> Iterator[Remedy]:
    """Autocast, if that suffices."""
    wanted = proposal(case)
    if wanted is not None and (done := case.verify(wanted)):
        yield done


def proposal(case: Case) -> Remedy | None:
    """None if the card has no bfloat16, or the script does not compute in float32."""
    model = case.survey.model
    if model is None or model.half or model.autocast or not case.trials.script.profile.bf16_tflops:
        return None
    if model.sharded:
        lines = (
            "from torch.distributed.fsdp import MixedPrecisionPolicy",
            "policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16)",
            "fully_shard(..., mp_policy=policy)",
        )
        text = "FSDP2 computes in bfloat16 (numbers change)"
        return case.proposal("precision", text, lines, Changes(sharded_half=True), same=False)
    name = model.variable
    line = f'{name}.forward = torch.autocast("cuda", dtype=torch.bfloat16)({name}.forward)'
    text = "autocast to bfloat16 (numbers change)"
    return case.proposal("precision", text, (line,), Changes(autocast=True), same=False, after_model=True)
