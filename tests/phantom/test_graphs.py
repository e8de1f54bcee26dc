"""CUDA graphs, events and the driver's modules on the phantom GPU."""

GRAPH = """
import torch
M = 2**20
def pools():
    segments = torch.cuda.memory_snapshot()
    return sorted([s["segment_pool_id"], s["total_size"] // M, s["allocated_size"] // M] for s in segments)
x = torch.ones(M, device="cuda")
graph, other = torch.cuda.CUDAGraph(), torch.cuda.Stream()
with torch.cuda.graph(graph):
    y = x * 2
    other.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(other):
        assert torch.cuda.is_current_stream_capturing()
        z = y + 1
    torch.cuda.current_stream().wait_stream(other)
    del y
    w = torch.empty(8 * M, device="cuda")
captured = pools()
for _ in range(3):
    graph.replay()
torch.cuda.synchronize()
ended = not torch.cuda.is_current_stream_capturing()
del graph, z, w
torch.cuda.empty_cache()
answer([captured, ended, pools()])
"""


def test_a_graph_keeps_a_private_pool(on_phantom) -> None:
    """Segments as PyTorch's own allocator makes them: a pool for the graph, in it one segment per captured stream."""
    captured, ended, after = on_phantom(GRAPH)
    ordinary, *private = captured
    assert ordinary == [[0, 0], 20, 4]
    assert [pool for pool, _, _ in private] == [private[0][0]] * 3
    assert private[0][0] != [0, 0]
    assert sorted(row[1:] for row in private) == [[20, 0], [20, 4], [32, 32]]
    assert ended
    assert after == [ordinary]


def test_the_end_of_a_capture_that_looked_at_a_value(on_phantom) -> None:
    """What a real card refuses is refused, and the next capture works."""
    text = """
import torch
x, said = torch.ones(4, device="cuda"), []
def capture(body):
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            body()
    except RuntimeError as error:
        said.append(str(error).splitlines()[0])
capture(lambda: x.sum().item())
capture(lambda: x.sum())
answer(said)
"""
    assert on_phantom(text) == ["CUDA error: operation failed due to a previous error during capture"]


def test_events_tell_modelled_times(on_phantom) -> None:
    """5 us for a launch, 3 for a kernel, 1 for the events: do_bench, which repeats one for 100 ms, ends."""
    text = """
import torch
x, times = torch.ones(4, device="cuda"), []
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    x + 1
    x + 1
for body in (lambda: None, lambda: x.add_(1), lambda: (x.add_(1), x.mul_(2)), graph.replay):
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    body()
    end.record()
    end.synchronize()
    times.append(round(start.elapsed_time(end), 3))
answer(times)
"""
    assert on_phantom(text) == [0.001, 0.009, 0.014, 0.009]


def test_a_module_of_the_driver(on_phantom) -> None:
    """The calls that Triton makes: load a module, ask about a function, launch it."""
    text = """
import ctypes, torch
x = torch.ones(4, device="cuda")
cuda = ctypes.CDLL("libcuda.so.1")
def made(name, *args):
    out = ctypes.c_void_p()
    assert getattr(cuda, name)(ctypes.byref(out), *args) == 0, name
    return out
module = made("cuModuleLoadData", b"")
function = made("cuModuleGetFunction", module, b"kernel")
spilled = ctypes.c_int(7)
assert cuda.cuFuncGetAttribute(ctypes.byref(spilled), 3, function) == 0
address, host = ctypes.c_uint64(), (ctypes.c_int * 4)()
assert cuda.cuPointerGetAttribute(ctypes.byref(address), 3, ctypes.c_uint64(x.data_ptr())) == 0
refused = cuda.cuPointerGetAttribute(ctypes.byref(address), 3, ctypes.c_uint64(ctypes.addressof(host)))
launched = cuda.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, None, None, None)
value = ctypes.c_int()
clocks = []
for attribute in (13, 36, 37):  # multiprocessors and memory in kHz, the memory's bus in bits
    assert cuda.cuDeviceGetAttribute(ctypes.byref(value), attribute, 0) == 0
    clocks.append(value.value)
answer([spilled.value, address.value == x.data_ptr(), refused, launched, clocks])
"""
    spilled, same, refused, launched, (clock, memory, bus) = on_phantom(text, card="a100-80gb")
    assert (spilled, same, refused, launched) == (0, True, 1, 0)
    assert abs(clock - 1_410_000) < 1000  # the data sheet's boost clock, found back from its fp32 rate
    assert round(2 * memory * 1000 * bus / 8 / 1e9) == 2039
