"""Remedies in bfloat16, on cards with units for it.

"precision": forward passes; "weights": weights, and with them gradients and the optimizer's state.
"""

from coopsim.fitting.bench import Bench
from coopsim.fitting.changes import Changes
from coopsim.fitting.remedies import arguments
from coopsim.fitting.remedy import Remedy

#: Inputs in float32 must become bfloat16, too.
_INPUTS = (
    "half = lambda x: x.bfloat16() if torch.is_tensor(x) and x.is_floating_point() else x",
    "{0}.register_forward_pre_hook(lambda _, args: tuple(map(half, args)))",
)
_MANY = 4  #: for more models than this, one line for all is shown, instead of one line per model


def propose(bench: Bench) -> None:
    """Propose forward passes in bfloat16, unless an option of the program does that."""
    if not bench.has_option("precision"):
        bench.first_of([proposal(bench)])


def propose_weights(bench: Bench) -> None:
    """Propose weights in bfloat16, unless half of the memory beside the context would not be enough to save."""
    survey = bench.survey
    if bench.over_bytes <= (survey.needs_bytes - survey.report.context_bytes) / 2:
        bench.first_of([of_weights(bench)])


def proposal(bench: Bench) -> Remedy | None:
    """Return the remedy, not tried yet; None if the card has no units for bfloat16.

    None, too, if it computes in 16 bits already (Survey.in_half), or if there is no model.
    """
    model = bench.survey.model
    if model is None or bench.survey.in_half or not bench.script.profile.bf16_tflops:
        return None
    if model.sharded:
        lines: tuple[str, ...] = (
            "from torch.distributed.fsdp import MixedPrecisionPolicy",
            "policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16)",
            "fully_shard(..., mp_policy=policy)",
        )
        text = "FSDP2 computes in bfloat16 (numbers change)"
        return bench.proposal("precision", text, lines, Changes(sharded_half=True), same=False)
    text = "autocast to bfloat16 (numbers change)"
    if (found := arguments.proposal(bench, "precision", f"bf16: {text}", "bf16", Changes(), same=False)) is not None:
        return found
    trained = [one for one in bench.survey.models if one.trained and not (one.half or one.autocast or one.sharded)]
    changes = Changes(autocast=True, models=tuple(one.number for one in trained))
    if len(trained) > 1 and (len(trained) > _MANY or not all(one.name for one in trained)):
        lines = ('with torch.autocast("cuda", dtype=torch.bfloat16):  # around the forward pass',)
        return bench.proposal("precision", text, lines, changes, same=False)
    names = [one.variable for one in trained]
    lines = tuple(f'{name}.forward = torch.autocast("cuda", dtype=torch.bfloat16)({name}.forward)' for name in names)
    return bench.proposal("precision", text, lines, changes, same=False, after_model=True)


def of_weights(bench: Bench) -> Remedy | None:
    """Return the remedy, not tried yet; None if the card has no bfloat16, or nothing is trained.

    None, too, if a trained model is sharded or in half precision already.
    """
    trained = [model for model in bench.survey.models if model.trained]
    if not trained or not bench.script.profile.bf16_tflops or any(m.half or m.sharded for m in trained):
        return None
    lines: list[str] = []
    for model in trained:
        lines.append(f"{model.variable}.to(torch.bfloat16)")
        if model.floats:
            lines += (line.format(model.variable) for line in _INPUTS)
    changes = Changes(bf16_weights=True, models=tuple(model.number for model in trained))
    text = "weights and optimizer in bfloat16 (numbers change, small updates are lost)"
    return bench.proposal("weights", text, tuple(dict.fromkeys(lines)), changes, same=False, after_model=True)
