"""A loss over a large vocabulary, in chunks or by Liger's kernels (remedy "loss"), so that memory holds less of it.

In chunks it holds the logits and their gradient; by Liger's, these in chunks, or the gradient in the logits' place.
"""

from importlib import util

from coopsim.fitting.bench import Bench
from coopsim.fitting.changes import Changes
from coopsim.fitting.remedies import arguments
from coopsim.fitting.remedy import Remedy

#: Fraction of the need below which logits are not worth a remedy of twenty lines.
_WORTH = 0.05
#: Logits and logarithms, the gradients of both, and logits in another type: all that a fused loss may spare.
FUSED = 5
_TEXT = "Liger's kernels, with {} (numbers change)"
_OWN_LOSS = (
    "from liger_kernel.transformers.functional import liger_cross_entropy",
    "torch.nn.functional.cross_entropy = liger_cross_entropy",
)
#: The lines to paste, which are also what a trial runs. The gradient is computed with the loss, chunk by chunk, so that
#: neither the log-probabilities nor their gradient are ever in memory as a whole. Losses in float16 are left as they
#: are, as their gradient needs the loss scale first.
LINES = """\
from torch.nn import functional
plain = functional.cross_entropy
class InChunks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, labels, count, options):
        made, total = torch.empty_like(logits), 0
        for x, y, gradient in zip(*(tensor.chunk(16) for tensor in (logits, labels, made))):
            with torch.enable_grad():
                x = x.detach().requires_grad_()
                loss = plain(x, y, reduction="sum", **options) / count
            gradient.copy_(torch.autograd.grad(loss, x)[0])
            total = total + loss.detach()
        ctx.save_for_backward(made)
        return total
    @staticmethod
    def backward(ctx, scale):
        return ctx.saved_tensors[0].mul_(scale), None, None, None
def in_chunks(logits, labels, weight=None, *, reduction="mean", ignore_index=-100, **options):
    takes = logits.requires_grad and logits.dtype != torch.float16 and not labels.is_floating_point()
    if weight is not None or reduction == "none" or not takes:
        return plain(logits, labels, weight, reduction=reduction, ignore_index=ignore_index, **options)
    count = (labels != ignore_index).sum() if reduction == "mean" else 1
    return InChunks.apply(logits, labels, count, {"ignore_index": ignore_index, **options})
functional.cross_entropy = in_chunks""".splitlines()


def in_chunks(bench: Bench) -> Remedy | None:
    """Return the remedy, not tried yet, of the loss in chunks; None if logits take less than 5 % of what is needed."""
    if bench.survey.logits_bytes < _WORTH * bench.survey.needs_bytes:
        return None
    text = "the loss in chunks, which may change last bits"
    changes = Changes(lines=((0, "", tuple(LINES)),))
    return bench.proposal("settings", text, tuple(LINES), changes, same=False, after_model=True)


def may_suffice(bench: Bench) -> bool:
    """Return whether the loss in chunks may suffice alone.

    It saves log-probabilities and their gradient, so at most twice the logits' bytes.
    """
    return 2 * bench.survey.logits_bytes >= bench.over_bytes


def propose(bench: Bench) -> None:
    """Propose Liger's kernels, where `by_liger` gives a remedy."""
    bench.first_of([by_liger(bench)])


def by_liger(bench: Bench) -> Remedy | None:
    """Return the remedy, not tried yet; None if Liger is not installed, or cannot save enough by the logits' bytes.

    A model of transformers gets it by `use_liger_kernel=True` where a line makes the TrainingArguments (None if it is
    not certain which does), else by a call on the model. Any other model gets Liger's loss, in lines to be printed.
    """
    if util.find_spec("liger_kernel") is None or not bench.survey.logits_bytes:
        return None
    survey, text = bench.survey, _TEXT.format("the loss fused with the last layer")
    changes = Changes(printed=("liger",))
    model = survey.model
    if model is None or "transformers" not in model.families:
        if not may_suffice(bench):
            return None
        text = _TEXT.format("the loss in the memory of the logits")
        return bench.proposal("loss", text, _OWN_LOSS, changes, same=False, after_model=True)
    if FUSED * survey.logits_bytes < bench.over_bytes:
        return None
    made = survey.given.arguments
    if made is not None and made.by == "lines":
        return arguments.proposal(bench, "loss", text, "use_liger_kernel", Changes(), same=False)
    own = (
        "from liger_kernel.transformers import _apply_liger_kernel_to_instance",
        f"_apply_liger_kernel_to_instance(model={model.variable})",
    )
    return bench.proposal("loss", text, own, changes, same=False, after_model=True)
