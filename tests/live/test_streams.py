"""Blocks that another stream has used are guarded when they are evicted: on the phantom GPU, by the calls."""

from tests.live.conftest import Child

TRAIN = """
import torch
import coopsim.live
layers = torch.nn.ModuleList(torch.nn.Linear(256, 256) for _ in range(8)).cuda()
optimizer = torch.optim.SGD(layers.parameters(), 0.1)
x = torch.zeros(4096, 256, device="cuda")
main, side = torch.cuda.current_stream(), torch.cuda.Stream()
guarded, own = [], torch.Tensor.record_stream
def record_stream(tensor, stream):
    guarded.append((stream == side, tensor.untyped_storage().nbytes()))
    return own(tensor, stream)
torch.Tensor.record_stream = record_stream
def train(on_side):
    budget = coopsim.live.Budget("60%")
    for _ in range(6):
        guarded.clear()
        with budget.step():
            h = x
            for i, layer in enumerate(layers):
                stream = side if i % 2 and on_side else main
                stream.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(stream):
                    h = torch.nn.functional.gelu(layer(h))
                main.wait_stream(stream)
            h.sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    return {"side": sum(s for s, _ in guarded), "bytes": min((n for _, n in guarded), default=0)} | budget.report()
"""


def test_evicted_blocks_wait_for_the_streams_that_used_them(child: Child) -> None:
    two, one = child(f"{TRAIN}answer([train(True), train(False)])")
    for report in (two, one):
        assert report["planned_steps"] >= 3, report
        assert report["evictions"] > 0, report
    assert two["side"] > 0
    assert two["bytes"] > 0  # the block itself, and not a hollow in its place
    assert one["side"] == 0
