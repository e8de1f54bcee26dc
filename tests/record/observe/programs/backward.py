"""Backward passes of many ops, each with its peaks: a line of JSON at the end of the file that is named."""

import json
import sys

import torch
from torch import nn
from torch._prims import rng_prims
from torch.nn import functional as F  # noqa: N812

ROWS, COLUMNS = 512, 1024
BACKENDS = nn.attention.SDPBackend


def ids(*shape, below=ROWS):
    return torch.randint(0, below, shape, device="cuda")


def selective_log_softmax(x):
    labels = ids(ROWS, below=COLUMNS)
    chosen = x.gather(-1, labels[:, None]).squeeze(-1)
    return chosen - torch.stack([torch.logsumexp(row, -1) for row in x])


def embedding(x):
    return F.embedding(ids(64), x)


def attention(x):
    q = x.view(4, 8, 128, 128)
    with nn.attention.sdpa_kernel([BACKENDS.MATH]):
        return F.scaled_dot_product_attention(q, q, q)


def put(x):
    return torch.zeros_like(x).index_put((ids(ROWS),), x * 2, accumulate=True)


def twice_differentiated(x):
    (grad,) = torch.autograd.grad(x.pow(3).sum(), x, create_graph=True)
    return grad.square()


def checkpointed(x):
    return torch.utils.checkpoint.checkpoint(lambda y: (y.exp() * y).max(-1).values, x, use_reentrant=False)


def many_uses(x):
    return x * 2 + x.sin() + x.t().contiguous().t() + x[3] + x.gather(0, ids(ROWS, COLUMNS))


def autocast(x):
    with torch.autocast("cuda", torch.bfloat16):
        return (x @ x.t()).log_softmax(-1).gather(1, ids(ROWS, 4))


def sparse_product(x):
    places = torch.zeros(2, 500, dtype=torch.long, device="cuda")
    return torch.sparse.mm(torch.sparse_coo_tensor(places, torch.ones(500, device="cuda"), (ROWS, ROWS)), x)


def saved_on_host(x):
    with torch.autograd.graph.save_on_cpu():
        return (x * x).exp().max(-1).values


def hooked(x):
    y = x * 2
    y.register_hook(lambda grad: grad * 2)
    return y.max(-1).values


def convolved_twice(x):
    out = F.conv2d(x.view(8, 4, 128, 128), torch.ones(4, 4, 3, 3, device="cuda", requires_grad=True))
    return torch.autograd.grad(out.pow(2).sum(), x, create_graph=True)[0]


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x + grad * x


CASES = {
    "gather": lambda x: x.gather(1, ids(ROWS, 1)),
    "take_along_dim": lambda x: torch.take_along_dim(x, ids(ROWS, 8), 1),
    "take": lambda x: x.take(ids(100)),
    "index_select": lambda x: x.index_select(0, ids(7)),
    "index": lambda x: x[ids(7)],
    "index of two": lambda x: x[ids(7), ids(7)],
    "index of a list": lambda x: x[[1, 5, 9]],
    "index_put": put,
    "index_add": lambda x: torch.zeros_like(x).index_add(0, ids(ROWS), x),
    "index_copy": lambda x: torch.zeros_like(x).index_copy(0, torch.arange(ROWS, device="cuda"), x),
    "index_fill": lambda x: x.index_fill(0, ids(5), 0.0),
    "scatter": lambda x: torch.zeros_like(x).scatter(0, ids(ROWS, COLUMNS), x),
    "scatter_add": lambda x: torch.zeros_like(x).scatter_add(0, ids(ROWS, COLUMNS), x),
    "scatter_reduce": lambda x: torch.zeros_like(x).scatter_reduce(0, ids(ROWS, COLUMNS), x, "amax"),
    "scatter mean": lambda x: torch.zeros_like(x).scatter_reduce(0, ids(ROWS, COLUMNS), x, "mean"),
    "masked_fill": lambda x: x.masked_fill(x > 0, 0.0),
    "masked_select": lambda x: x.masked_select(x > 0),
    "masked_scatter": lambda x: x.masked_scatter(x > 0, x * 2),
    "where": lambda x: torch.where(x > 0, x, x * 2),
    "select": lambda x: x[3],
    "slice": lambda x: x[3:70, ::2],
    "narrow": lambda x: x.narrow(1, 5, 9),
    "diagonal": lambda x: x.diagonal(),
    "unfold": lambda x: x.unfold(1, 16, 8),
    "as_strided": lambda x: x.as_strided((64, 64), (70, 3)),
    "split": lambda x: sum(part.sum() for part in x.split(100)),
    "unbind": lambda x: sum(part.sum() for part in x[:9].unbind()),
    "max over a dimension": lambda x: x.max(-1).values,
    "max": lambda x: x.max(),
    "min over a dimension": lambda x: x.min(0).values,
    "amax": lambda x: x.amax(-1),
    "aminmax": lambda x: sum(torch.aminmax(x, dim=-1)),
    "maximum": lambda x: torch.maximum(x, x * 2),
    "median": lambda x: x.median(),
    "median over a dimension": lambda x: x.median(-1).values,
    "nanmedian": lambda x: x.nanmedian(-1).values,
    "mode": lambda x: x.mode(-1).values,
    "kthvalue": lambda x: x.kthvalue(5, -1).values,
    "topk": lambda x: x.topk(5, -1).values,
    "sort": lambda x: x.sort(-1).values,
    "msort": lambda x: x.msort(),
    "quantile": lambda x: x.quantile(0.5, dim=-1),
    "prod": lambda x: x.prod(),
    "prod over a dimension": lambda x: x.prod(-1),
    "cumprod": lambda x: x.cumprod(-1),
    "cumsum": lambda x: x.cumsum(-1),
    "cummax": lambda x: x.cummax(-1).values,
    "cummin": lambda x: x.cummin(-1).values,
    "logcumsumexp": lambda x: x.logcumsumexp(-1),
    "logsumexp": lambda x: x.logsumexp(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "softmax": lambda x: x.softmax(-1),
    "selective_log_softmax": selective_log_softmax,
    "cross_entropy": lambda x: F.cross_entropy(x, ids(ROWS, below=COLUMNS)),
    "cross_entropy with smoothing": lambda x: F.cross_entropy(x, ids(ROWS, below=COLUMNS), label_smoothing=0.1),
    "cross_entropy of soft labels": lambda x: F.cross_entropy(x, x.detach().softmax(-1)),
    "binary_cross_entropy": lambda x: F.binary_cross_entropy(x.sigmoid(), torch.ones_like(x)),
    "binary_cross_entropy_with_logits": lambda x: F.binary_cross_entropy_with_logits(x, torch.ones_like(x)),
    "kl_div": lambda x: F.kl_div(x.log_softmax(-1), x.softmax(-1), reduction="batchmean"),
    "smooth_l1_loss": lambda x: F.smooth_l1_loss(x, torch.zeros_like(x)),
    "huber_loss": lambda x: F.huber_loss(x, torch.zeros_like(x)),
    "mse_loss": lambda x: F.mse_loss(x, x.detach()),
    "multi_margin_loss": lambda x: F.multi_margin_loss(x, ids(ROWS, below=COLUMNS)),
    "cosine_similarity": lambda x: F.cosine_similarity(x, x * 2),
    "triplet_margin_loss": lambda x: F.triplet_margin_loss(x, x * 2, x * 3),
    "y * y": lambda x: (x * 2) * (x * 2),
    "square of one": lambda x: (lambda y: y * y)(x * 2),
    "pow": lambda x: x.pow(3),
    "pow of two": lambda x: x.abs().pow(x),
    "div": lambda x: x / (x + 2),
    "addcdiv": lambda x: torch.addcdiv(x, x, x + 2),
    "addcmul": lambda x: torch.addcmul(x, x, x),
    "lerp": lambda x: torch.lerp(x, x * 2, x),
    "sqrt": lambda x: x.sqrt(),
    "rsqrt": lambda x: x.rsqrt(),
    "sigmoid": lambda x: x.sigmoid(),
    "sinc": lambda x: x.sinc(),
    "atan2": lambda x: torch.atan2(x, x + 1),
    "gelu": F.gelu,
    "silu": F.silu,
    "mish": F.mish,
    "elu": F.elu,
    "glu": F.glu,
    "prelu": lambda x: F.prelu(x, torch.ones(1, device="cuda", requires_grad=True)),
    "relu in place": lambda x: F.relu_(x * 2),
    "clamp": lambda x: x.clamp(-1, 1),
    "clamp by tensors": lambda x: x.clamp(x - 1, x + 1),
    "dropout": F.dropout,
    "norm": lambda x: x.norm(),
    "norm of rows": lambda x: x.norm(dim=-1),
    "norm of order 3": lambda x: x.norm(3, dim=-1),
    "infinity norm": lambda x: torch.linalg.vector_norm(x, float("inf"), dim=-1),
    "normalize": F.normalize,
    "renorm": lambda x: x.renorm(2, 0, 1.0),
    "std": lambda x: x.std(-1),
    "var_mean": lambda x: sum(torch.var_mean(x, -1)),
    "mean": lambda x: x.mean(-1),
    "cdist": lambda x: torch.cdist(x, x[:100]),
    "layer_norm": lambda x: F.layer_norm(x, (COLUMNS,)),
    "rms_norm": lambda x: F.rms_norm(x, (COLUMNS,)),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "group_norm": lambda x: F.group_norm(x.view(8, 64, -1), 8),
    "linear": lambda x: F.linear(x, x),
    "bilinear": lambda x: F.bilinear(x[:, :8], x[:, :8], torch.ones(5, 8, 8, device="cuda", requires_grad=True)),
    "matrix products": lambda x: (x @ x.t()) @ x,
    "einsum": lambda x: torch.einsum("ij,kj->ik", x, x),
    "baddbmm": lambda x: torch.baddbmm(x.view(4, 128, -1), x.view(4, 128, -1), x.view(4, 1024, -1)[:, :, :1] * x[0]),
    "conv2d": lambda x: F.conv2d(x.view(8, 4, 128, 128), torch.ones(4, 4, 3, 3, device="cuda", requires_grad=True)),
    "max_pool2d": lambda x: F.max_pool2d(x.view(8, 4, 128, 128), 2),
    "avg_pool2d": lambda x: F.avg_pool2d(x.view(8, 4, 128, 128), 2),
    "adaptive_max_pool2d": lambda x: F.adaptive_max_pool2d(x.view(8, 4, 128, 128), 7),
    "interpolate": lambda x: F.interpolate(x.view(8, 4, 128, 128), scale_factor=2.0, mode="bilinear"),
    "grid_sample": lambda x: F.grid_sample(
        x.view(8, 4, 128, 128), torch.zeros(8, 9, 9, 2, device="cuda"), align_corners=False
    ),
    "pad": lambda x: F.pad(x.view(8, 4, 128, 128), (1, 1, 1, 1), mode="reflect"),
    "embedding": embedding,
    "embedding_bag": lambda x: F.embedding_bag(ids(64, 4), x),
    "attention": attention,
    "cat": lambda x: torch.cat([x, x * 2]),
    "stack": lambda x: torch.stack([x, x * 2]),
    "expand": lambda x: x[None].expand(3, -1, -1),
    "repeat": lambda x: x.repeat(2, 3),
    "repeat_interleave": lambda x: x.repeat_interleave(3, 0),
    "roll": lambda x: x.roll(1, 0),
    "flip": lambda x: x.flip(0),
    "tril": lambda x: x.tril(),
    "trace": lambda x: x.trace(),
    "complex": lambda x: torch.view_as_real(torch.view_as_complex(x.view(ROWS, -1, 2)) ** 2),
    "to another type": lambda x: x.bfloat16().max(-1).values,
    "copy in place": lambda x: torch.zeros_like(x).copy_(x),
    "part set": lambda x: torch.zeros_like(x).index_fill_(0, ids(3), 1.0).mul_(x),
    "twice differentiated": twice_differentiated,
    "checkpointed": checkpointed,
    "many uses": many_uses,
    "autocast": autocast,
    "an op in Python": lambda x: rng_prims.run_and_save_rng_state(torch.ops.aten.exp.default, x.detach())[1] * x,
    "reentrant": lambda x: torch.utils.checkpoint.checkpoint(lambda y: y.exp().amax(-1), x, use_reentrant=True),
    "vmap": lambda x: torch.func.vmap(lambda row: (row * row).max())(x),
    "gradients of samples": lambda x: torch.func.vmap(torch.func.grad(lambda row: (row * row).sum()))(x),
    "forward mode": lambda x: torch.func.jvp(lambda y: y.sin().max(-1).values, (x,), (x,))[1],
    "vector and Hessian": lambda x: torch.autograd.functional.vhp(lambda y: y.pow(3).sum(), x, x, create_graph=True)[1],
    "sparse_product": sparse_product,
    "nested": lambda x: torch.nested.as_nested_tensor([x[:100], x[:200]], layout=torch.jagged).sin().values(),
    "fft": lambda x: torch.fft.rfft2(x).abs(),
    "svd": lambda x: torch.linalg.svdvals(x[:64, :64]),
    "LSTM": lambda x: nn.LSTM(COLUMNS, 64, device="cuda")(x[None])[0],
    "LSTM with a projection": lambda x: nn.LSTM(COLUMNS, 64, 2, proj_size=32, device="cuda")(x[None])[0],
    "fused attention": lambda x: F.scaled_dot_product_attention(*[x.half().view(4, 8, 128, 128)] * 3),
    "nonzero": lambda x: x[(x > 0).nonzero(as_tuple=True)[0]],
    "on the host": lambda x: x.cpu().max(-1).values,
    "saved_on_host": saved_on_host,
    "hooked": hooked,
    "convolved_twice": convolved_twice,
    "a function of one's own": Doubled.apply,
}


#: Cases whose derivative older versions of PyTorch lack: name → the first version that has it.
SINCE = {"aminmax": (2, 12)}
VERSION = tuple(map(int, torch.__version__.split(".")[:2]))


def peaks(case):
    torch.cuda.empty_cache()
    x = torch.ones(ROWS, COLUMNS, device="cuda").requires_grad_()
    torch.cuda.reset_peak_memory_stats()
    for _ in range(2):  # the second adds to the gradient
        out = case(x)
        (out if out.dim() == 0 else out.float().sum()).backward()
    stats = torch.cuda.memory_stats()
    return [stats[f"{kind}_bytes.all.peak"] for kind in ("requested", "allocated", "reserved")]


if __name__ == "__main__":
    torch.manual_seed(0)
    peaks(lambda x: x @ x.t())  # the workspaces stay
    found = {}
    for name, case in CASES.items():
        if SINCE.get(name, ()) <= VERSION:
            found[name] = peaks(case)
    with open(sys.argv[1], "a") as file:
        file.write(json.dumps(found) + "\n")
    weight = torch.ones(ROWS, COLUMNS, device="cuda", requires_grad=True)
    optimizer = torch.optim.Adam([weight])
    for _ in range(4):  # for a trace, with which the script ends
        weight.gather(1, ids(ROWS, 1)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
