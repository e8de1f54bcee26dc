"""Parts of the recorder on their own, in a child on the phantom GPU."""

EFFECTS = """
import torch
from coopsim.record.observe import effects
A = torch.ops.aten
x, s = torch.empty(2, 3, device="cuda"), torch.empty(3, device="cuda")
def mutated(func, *args, **kwargs): return sorted(effects.mutated(func, effects.arguments(func, args, kwargs)))
def draws(func, *args, **kwargs): return effects.is_random(func, effects.arguments(func, args, kwargs))
norm = (x, s, s, s, s)
answer({
    "mutated": [
        mutated(A.add_.Tensor, x, x), mutated(A.add.Tensor, x, x), mutated(A.t_.default, x),
        mutated(A.add.out, x, x, out=x), mutated(A._foreach_add_.Scalar, [x, s], 1.0),
        mutated(A.cudnn_batch_norm.default, *norm, True, 0.1, 1e-5),
        mutated(A.cudnn_batch_norm.default, *norm, False, 0.1, 1e-5),
        mutated(A.native_batch_norm.default, *norm, True, 0.1, 1e-5),
        mutated(A._fused_sgd_.default, [x], [x], [x], weight_decay=0, momentum=0, lr=1, dampening=0, nesterov=False,
                maximize=False, is_first_step=False),
    ],
    "random": [
        draws(A.native_dropout.default, x, 0.1, True), draws(A.native_dropout.default, x, 0.1, None),
        draws(A.native_dropout.default, x, 0.1, False), draws(A.native_dropout.default, x, 0.0, True),
        draws(A.bernoulli_.float, x, 0.5), draws(A.rand.default, [2]), draws(A.normal_.default, x),
        draws(A._scaled_dot_product_efficient_attention.default, x, x, x, None, True),
        draws(A._scaled_dot_product_efficient_attention.default, x, x, x, None, True, 0.1),
        draws(A._scaled_dot_product_efficient_attention_backward.default, dropout_p=0.1), draws(A.relu.default, x),
    ],
})
"""


def test_effects(on_phantom) -> None:
    found = on_phantom(EFFECTS)
    running = ["running_mean", "running_var"]
    assert found["mutated"] == [
        ["self"],
        [],
        [],
        ["out"],
        ["self"],
        running,
        [],
        running,
        ["momentum_buffer_list", "self"],
    ]
    assert found["random"] == [True, True, False, False, True, True, True, False, True, False, False]


LEDGER = """
import torch
from coopsim.record.observe.storages import Ledger
ledger, freed = Ledger(), []
ledger.recording_starts(None, lambda storage: freed.append(storage.serial))
x = torch.ones(100, device="cuda", requires_grad=True)
y = x.exp()                                  # autograd keeps the result
first, second = ledger.of(x).serial, ledger.of(y).serial
same = ledger.of(y.view(10, 10)) is ledger.of(y)
z = y.sum()
del y
kept = list(freed)
z.backward()
after = list(freed)
ones = torch.ones(1, device="cuda").expand(1000)
buffer = torch.empty(0, device="cuda")
nothing = ledger.of(buffer)
torch.add(x.detach(), 1, out=buffer)
grown = ledger.of(buffer)
buffer.untyped_storage().resize_(800)
again = ledger.of(buffer)
answer([first, second, same, kept, after, ledger.of(ones).nbytes, nothing, grown.nbytes, grown.alive, again.nbytes,
        again.resized, [s.nbytes for s in ledger.alive()], ledger.live_bytes])
"""


def test_ledger(on_phantom) -> None:
    assert on_phantom(LEDGER) == [1, 2, True, [], [2], 4, None, 400, False, 800, True, [400, 800, 4], 1204]


WRAPPER = """
import torch
from torch.testing._internal.two_tensor import TwoTensor
from coopsim.record.observe.interpose.library import load
from coopsim.record.observe.native import NativeLedger
from coopsim.record.observe.storages import Ledger
inner = torch.ones(100, device="cuda")
wrapper = TwoTensor(inner, inner)
ledgers = [Ledger(), NativeLedger(load())]
answer([[ledger.of(wrapper), ledger.of(inner).nbytes, ledger.live_bytes] for ledger in ledgers])
"""


def test_a_wrapper_takes_no_memory(on_phantom) -> None:
    """It has a storage of all its bytes, without memory: the sum of kinds was larger than what was allocated."""
    assert on_phantom(WRAPPER) == [[None, 400, 400], [None, 400, 400]]


HIGH_WATER = """
from coopsim.record.observe.temporaries import high_water
def event(action, addr, size, op): return {"action": action, "addr": addr, "size": size, "user_metadata": op}
answer(high_water([
    event("alloc", 1, 100, "7"), event("alloc", 2, 10, "7"), event("free_requested", 1, 100, "7"),
    event("alloc", 1, 95, "7"), event("free_requested", 1, 95, "7"), event("free_requested", 2, 10, "7"),
    event("alloc", 3, 50, "8"), event("free_requested", 3, 50, ""),   # a result, freed between ops
    event("alloc", 4, 50, ""), event("free_requested", 4, 50, "9"),
    event("alloc", 5, 60, "9"), event("free_completed", 5, 60, "9"),  # a workspace that stays
]))
"""


def test_temporaries_at_their_most(on_phantom) -> None:
    assert on_phantom(HIGH_WATER) == {"7": [100, 10]}


REQUESTS = """
from dataclasses import dataclass
from coopsim.record.observe import request_order
from coopsim.record.observe.recording import Free, Op, Recording
from coopsim.record.observe.storages import Storage
from coopsim.base.types import Phase
def event(action, addr, tag, size=100): return {"action": action, "addr": addr, "size": size, "user_metadata": tag}
entries = [
    event("free_requested", 5, ""),                          # of the start
    event("alloc", 1, "7", 30), event("alloc", 2, "7"), event("free_requested", 1, "7"), event("alloc", 1, "7"),
    event("alloc", 9, "7+"), event("free_requested", 9, "7+"),  # by the program itself
    event("alloc", 3, "8"), event("free_requested", 2, "8+"), event("free_requested", 3, "7+"),  # on a stale thread
]
start, first, second, third = (Storage(i, 100, address) for i, address in enumerate([5, 2, 1, 3]))
def op(number, *creates): return Op(number, "", Phase.FORWARD, "", 0, [], [], creates=list(creates))
asked = request_order.by_op(entries)
def agree(*order, history=entries): return request_order.agreement(Recording([start], list(order)), history)
right = [Free(start), op(7, first, second), op(8, third), Free(first), Free(third)]
later = [*entries, event("alloc", 4, "10")]  # what the stale thread gave back, it did after 8 and before 10 took memory
answer([
    asked, request_order.encode(asked[7], [first, second]), request_order.encode(asked[7], [second, first]),
    request_order.encode(asked[8], [third]), agree(*right), agree(*right[:2], right[3], right[2], right[4]),
    agree(*right[:4], op(9), right[4], op(10), history=later),
    agree(*right[:4], op(9), op(10), right[4], history=later),
])
"""


def test_requests_and_frees_of_a_history(on_phantom) -> None:
    asked = {"7": [[1, 30], [2, 100], [1, 0], [1, 100]], "8": [[3, 100]]}
    assert on_phantom(REQUESTS) == [asked, [30, -1, -3, -2], [30, -2, -3, -1], [], [3, 3], [2, 3], [3, 3], [2, 3]]
