"""Compute the loss over a large vocabulary in chunks, so that memory holds only the logits and their gradient."""

from coopsim.fit.case import Case
from coopsim.fit.changes import Changes
from coopsim.fit.remedy import Remedy

#: Fraction of the need below which logits are not worth a remedy of twenty lines.
_WORTH = 0.05
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


def proposal(case: Case) -> Remedy | None:
    """Return the remedy, not tried yet, of the loss in chunks; None if logits take less than 5 % of what is needed."""
    if case.survey.logits_bytes < _WORTH * case.survey.needs_bytes:
        return None
    text = "the loss in chunks, which may change last bits"
    return case.proposal("settings", text, tuple(LINES), Changes(chunked_loss=True), same=False, after_model=True)


def may_suffice(case: Case) -> bool:
    """Return whether the loss in chunks may suffice alone.

    It saves log-probabilities and their gradient, so at most twice the logits' bytes.
    """
    return 2 * case.survey.logits_bytes >= case.over_bytes
