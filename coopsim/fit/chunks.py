"""The loss over many words in chunks: at no time is there more than the logits and their gradient."""

from coopsim.fit.case import Case
from coopsim.fit.changes import Changes
from coopsim.fit.remedy import Remedy

#: Of what is needed: logits that are less are not worth twenty lines beside other remedies.
_WORTH = 0.05
#: What is pasted, and what a trial runs. The gradient is made with the loss, chunk by chunk, so that neither the
#: logarithms nor their gradient are ever there as a whole. Half precision, which
#: needs its scale first, stays as it is.
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
    """None if the script has no logits to speak of."""
    if case.survey.logits_bytes < _WORTH * case.survey.needs_bytes:
        return None
    text = "the loss in chunks, which may change last bits"
    return case.proposal("settings", text, tuple(LINES), Changes(chunked_loss=True), same=False, after_model=True)


def may_suffice(case: Case) -> bool:
    """Beside logits and gradient an ordinary loss has their logarithms and the gradient of these."""
    return 2 * case.survey.logits_bytes >= case.over_bytes
