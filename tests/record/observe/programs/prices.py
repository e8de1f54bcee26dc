"""Writes what ops of every class take of the card's time: as the library prices them by itself, and as Python does."""

import json
import sys

import torch
from torch.nn.functional import batch_norm, conv2d, embedding, layer_norm, max_pool2d
from torch.nn.functional import scaled_dot_product_attention as attention

from coopsim.phantom.control import Control
from coopsim.run.probes import clock, recorder

control = Control()
A = torch.ops.aten
half, single = torch.bfloat16, torch.float32
x = {kind: torch.ones(8, 64, 24, 24, device="cuda", dtype=kind) for kind in (half, single)}
last = {kind: value.to(memory_format=torch.channels_last) for kind, value in x.items()}
w = {n: torch.ones(64, 64, n, n, device="cuda") for n in (1, 3)}
deep = torch.ones(64, 1, 3, 3, device="cuda")
m, odd, s = torch.ones(512, 512, device="cuda"), torch.ones(512, 513, device="cuda"), torch.ones(64, device="cuda")
q = torch.ones(2, 4, 128, 64, device="cuda", dtype=half)
ids = torch.zeros(100, dtype=torch.long, device="cuda")
OPS = {
    "add": lambda: x[single] + x[single],
    "add_": lambda: x[half].add_(1),
    "scale": lambda: torch.mul(2.0, x[half]),
    "compare": lambda: x[half] > 0,
    "to": lambda: x[single].to(half),
    "copy": lambda: x[single].transpose(1, 2).contiguous(),
    "zeros": lambda: torch.zeros(10**6, device="cuda"),
    "empty": lambda: torch.empty(10**6, device="cuda"),
    "sum": lambda: x[half].sum(),
    "softmax": lambda: torch.softmax(m, -1),
    "softmax of half": lambda: torch.softmax(m.to(half), -1),
    "layer norm": lambda: layer_norm(m, (512,)),
    "batch norm": lambda: batch_norm(x[single], None, None, s, s, True),
    "batch norm, last": lambda: batch_norm(last[single], None, None, s, s, True),
    "pool": lambda: max_pool2d(x[single], 2),
    "pool, last": lambda: max_pool2d(last[single], 2),
    "mm": lambda: m @ m,
    "mm, odd": lambda: m @ odd,
    "mm of half": lambda: m.to(half) @ odd.to(half),
    "bmm": lambda: torch.bmm(q[0], q[0].transpose(1, 2)),
    "conv": lambda: conv2d(x[single], w[3], padding=1),
    "conv, last": lambda: conv2d(last[single], w[3], padding=1),
    "pointwise": lambda: conv2d(x[single], w[1]),
    "depthwise": lambda: conv2d(x[single], deep, groups=64),
    "attention": lambda: attention(q, q, q),
    "attention, causal": lambda: attention(q, q, q, is_causal=True),
    "embedding": lambda: embedding(ids, m),
    "index": lambda: torch.index_select(m, 0, ids),
    "foreach": lambda: torch._foreach_mul([m, s], 2.0),
}


def measure() -> dict[str, int]:
    """ns of the stream that each op takes; an empty one keeps the stream ahead of the host."""
    far = torch.empty(16384, 16384, device="cuda")
    far @ far
    found = {}
    for name, call in OPS.items():
        before = control.stream_end_ns(clock.stream())
        call()
        found[name] = control.stream_end_ns(clock.stream()) - before
    return found


measure()  # the library asks Python
alone = measure()
recorder.all_to_python(True)
with open(sys.argv[1], "w", encoding="utf-8") as file:
    json.dump([alone, measure()], file)
