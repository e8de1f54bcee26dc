"""The precision of float32 products in traces: as the program sets it, op by op, or as --precision says."""

from coopsim.trace import Trace, load

TEXT = """
import torch
x, image = torch.ones(4096, 4096, device="cuda"), torch.ones(32, 64, 64, 64, device="cuda")
kernel = torch.ones(64, 64, 3, 3, device="cuda")
def step():
    x @ x
    torch.backends.cuda.matmul.allow_tf32 = True
    x @ x
    torch.backends.cuda.matmul.allow_tf32 = False
    x.bfloat16() @ x.bfloat16()
    torch.nn.functional.conv2d(image, kernel)
"""
HALF = """
import torch
x, net = torch.ones(64, 64, device="cuda"), torch.nn.Linear(64, 64).cuda()
def step():
    with torch.autocast("cuda", dtype=torch.bfloat16):
        net(x)
"""


def costs(trace: Trace) -> tuple[int, ...]:
    """The prices of the ops with FLOPs."""
    return tuple(c for f, c in zip(trace.flops.tolist(), trace.cost_ns.tolist(), strict=True) if f)


def test_precision(record) -> None:
    set_, full, fast = (load(record(TEXT, **options)) for options in ({}, {"precision": "fp32"}, {"precision": "tf32"}))
    assert set_.header["precision"] == "fp32 (matrix products), tf32 (matrix products, convolutions)"
    assert (full.header["precision"], fast.header["precision"]) == ("fp32", "tf32")
    assert (full.precision, fast.precision) == ("bf16, float32 products in fp32", "bf16, float32 products in tf32")
    half = load(record(HALF))
    assert (half.header["precision"], half.precision) == ("fp32", "bf16 autocast"), "no product is in float32"
    in_full, in_fast = costs(full), costs(fast)
    assert costs(set_) == (in_full[0], *in_fast[1:])  # only the first product was in full float32
    assert in_full[0] > 4 * in_fast[0]
    assert in_full[2] == in_fast[2]  # of bfloat16
    assert in_full[3] > in_fast[3]
