"""Random programs that train on three streams of the phantom GPU, whose ops say in its log what they read and write.

Their own waits and record_stream are as PyTorch asks for, so that a run without a budget has no fault. No sum is
differentiated: autograd hands one gradient to both of its terms, and may add to it for one while the other reads it.
"""

import os
import random
import sys
from collections.abc import Callable
from typing import Any

import torch

import coopsim.live
from coopsim.live.budget import offer
from coopsim.live.session import TrainingSession
from coopsim.live.streams import Streams
from coopsim.live.tracked import TrackedStorage
from tests.live.compare import FastHost
from tests.live.happens_before import Checker

N = 1 << 18  #: elements of a tensor: 1 MiB
STEPS = 6
SHARES = 55, 65, 75  #: of a program's memory, that it gets
_address, _raw_stream = torch.Tensor.data_ptr, torch._C._cuda_getCurrentRawStream
_LIBRARY = torch.library.Library("aten", "IMPL")


def _say(text: str) -> None:
    os.write(2, f"{text}\n".encode())


def _kernel(name: str, *, changes: bool) -> Callable[..., torch.Tensor]:
    """In place of PyTorch's own: it takes a while, so that no event is done by chance, and says what it does."""

    def run(*args: Any, **_: Any) -> torch.Tensor:
        tensors = [one for one in args if isinstance(one, torch.Tensor) and one.is_cuda]
        scalars = ";".join(str(float(one)) for one in args if not (isinstance(one, torch.Tensor) and one.is_cuda))
        out = tensors[0] if changes else torch.empty_like(tensors[0])
        reads = dict.fromkeys(_address(one) for one in tensors if name != "fill")
        told = [",".join(f"{at:#x}:{4 * N}" for at in ats) or "-" for ats in (reads, [_address(out)])]
        torch.cuda._sleep(1_000_000_000)
        _say(f"op {name}({scalars}) {_raw_stream(0)} {told[0]} {told[1]}")
        return out

    return run


for overload in ("mul.Tensor", "add.Tensor", "tanh", "tanh_backward", "add_.Tensor", "sub_.Tensor", "fill_.Scalar"):
    name = overload.partition(".")[0]
    _LIBRARY.impl(overload, _kernel(name.rstrip("_"), changes=name.endswith("_")), "CUDA")  # autograd adds either way


class Program:
    """One that is made of a seed. Its steps are alike, but in some programs the streams of one step are others."""

    def __init__(self, seed: int) -> None:
        self._draw = draw = random.Random(seed)
        self._streams = [torch.cuda.default_stream(), torch.cuda.Stream(), torch.cuda.Stream()]
        self.weights: list[Any] = [torch.nn.Parameter(self._filled(i + 1)) for i in range(draw.randint(3, 7))]
        self.kept: Any = self._filled(50)  # across steps
        self._x, self._gradient = self._filled(100), self._filled(101)
        self._holds = seed % 4 == 1  # all that it uses, to the end of a step; else it calls record_stream
        self._held: list[torch.Tensor] = []
        self._ops = [self._op() for _ in range(draw.randint(20, 40))]
        self._moved = draw.choice([None, None, 4])  # the step whose streams are others
        torch.cuda.synchronize()

    def _filled(self, value: float) -> torch.Tensor:
        return torch.empty(N, device="cuda").fill_(value)

    def _op(self) -> tuple[str, int, int, int, int]:
        """What kind, in which lane, and of what: of which other lane, how far back there, and which weight."""
        draw = self._draw
        kind = draw.choice(["mul", "mul", "tanh", "tanh", "both", "keep", "change", "read"])
        return kind, draw.randrange(3), draw.randrange(3), draw.randint(1, 3), draw.randrange(len(self.weights))

    def _reads(self, stream: torch.cuda.Stream, *tensors: Any) -> None:
        """The program's own duty, before a stream reads tensors, and no more than that."""
        for one in tensors:
            if (made := getattr(one, "made_on", stream)) != stream:
                stream.wait_stream(made)
            one.read_on = getattr(one, "read_on", set()) | {stream}
            if self._holds:
                self._held.append(one)
            else:
                one.record_stream(stream)

    def _changes(self, stream: torch.cuda.Stream, one: Any) -> None:
        """The same before it changes one."""
        self._reads(stream, one)
        for other in one.read_on - {stream}:
            stream.wait_stream(other)
        one.made_on, one.read_on = stream, set()

    def _wait_for_all(self) -> None:
        for side in self._streams[1:]:
            self._streams[0].wait_stream(side)
        self._held.clear()

    def step(self, number: int) -> None:
        """Forward, backward, optimizer."""
        for side in self._streams[1:]:
            side.wait_stream(self._streams[0])
        lanes: list[list[Any]] = [[self._x] for _ in self._streams]
        saved = False  # for the backward pass, so that it must not be changed
        for i, (kind, lane, other, back, which) in enumerate(self._ops):
            stream = self._streams[(lane + (number == self._moved and i % 2)) % 3]
            made: Any = None
            old, last, weight = lanes[other][-back:][0], lanes[lane][-1], self.weights[which]
            with torch.cuda.stream(stream):
                match kind:
                    case "mul":
                        self._reads(stream, last, weight)
                        made = last * weight
                    case "tanh":
                        self._reads(stream, last)
                        made = last.tanh()
                    case "both":
                        self._reads(stream, last, old)
                        made = last * old
                    case "read":
                        self._reads(stream, last, self.kept)
                        made, saved = last * self.kept, True
                    case "keep":
                        self._reads(stream, old)
                        self.kept, saved = old.detach() * 0.5, False
                        self.kept.made_on = stream
                    case "change" if not saved:
                        self._reads(stream, old)
                        self._changes(stream, self.kept)
                        self.kept.add_(old.detach())
            if made is not None:
                made.made_on = stream
                lanes[lane].append(made)
        main = self._streams[0]
        self._reads(main, *(lane[-1] for lane in lanes))
        out = lanes[0][-1] * lanes[1][-1] * lanes[2][-1]
        del lanes, old, last, made
        out.backward(self._gradient)
        del out
        self._wait_for_all()
        for weight in self.weights:
            if weight.grad is not None:
                weight.grad.record_stream(main)
                with torch.no_grad():
                    weight.sub_(weight.grad * 0.1)
                weight.grad = None

    def tell(self) -> None:
        """Ask for the value of all that is left."""
        torch.cuda.synchronize()
        for i, one in enumerate((*self.weights, self.kept)):
            _say(f"value {i} {_address(one):#x}")


def run(seed: int, memory: str | None, offload: bool) -> dict[str, Any]:
    """Run a program. The report of the budget."""
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    _say(f"mark program {seed} in {memory}")
    program, report = Program(seed), {}
    if memory is not None:
        made = lambda: TrainingSession(memory, "foresight-offline", offload=FastHost() if offload else None)  # noqa: E731
        offer(made)
    budget = coopsim.live.Budget(memory) if memory is not None else None
    for number in range(STEPS):
        _say(f"mark program {seed} in {memory}, step {number}")
        if budget is not None:
            with budget.step():
                program.step(number)
        else:
            program.step(number)
    program.tell()
    if budget is not None:
        report = budget.report()
    return report | {"peak": torch.cuda.max_memory_reserved()}


def leaving(path: str) -> dict[str, Any]:
    """A program of one stream, whose last step reads on another what was made, evicted and run again before.

    It waits for the op that made it, and says by record_stream that the other stream reads it, as PyTorch asks for.
    path: as of `check`. The report of the budget, and the checker's faults.
    """
    x, gradient, side = (torch.empty(N, device="cuda").fill_(i) for i in range(3))
    weight, stream = torch.nn.Parameter(torch.empty(N, device="cuda").fill_(4)), torch.cuda.Stream()
    torch.cuda.synchronize()
    budget, main, begun = coopsim.live.Budget("70%"), torch.cuda.default_stream(), torch.cuda.Event()
    for number in range(STEPS):
        _say(f"mark step {number}")
        with budget.step():
            h = x
            for i in range(12):
                h = (h * weight).tanh() if i % 3 == 0 else h.tanh()
                if i == 1:
                    kept = h.detach()
                    kept.record_stream(stream)
                    begun.record()
            h.backward(gradient)
            del h
            there = kept * 3.0  # it has come back
            stream.wait_event(begun)
            with torch.cuda.stream(stream if number == STEPS - 1 else main):
                side.add_(kept)
            del kept, there
            with torch.no_grad():
                weight.sub_(weight.grad * 0.1)
            weight.grad = None
    torch.cuda.synchronize()
    with open(path, encoding="utf-8", errors="replace") as log:
        return budget.report() | {"faults": Checker().read(log).faults}


def next_step(path: str, *, forgets: bool) -> list[str]:
    """What one step has run again is read in the next by a stream that no step has used: the checker's faults.

    It waits for the op that made it at first, as a program does. forgets: each step's streams are its own.
    """
    x, y, read = (torch.empty(N, device="cuda").fill_(i) for i in range(3))
    made, other, streams = torch.cuda.Event(), torch.cuda.Stream(), Streams()
    torch.cuda.synchronize()
    made.record()
    streams.before_again()
    y.sub_(x)
    streams.after_again([])
    streams.end()
    streams = Streams() if forgets else streams
    streams.begin_step()
    other.wait_event(made)
    with torch.cuda.stream(other):
        streams.use([TrackedStorage(y.untyped_storage())])
        read.sub_(y)
    with open(path, encoding="utf-8", errors="replace") as log:
        return Checker().read(log).faults


def check(path: str, seeds: range) -> dict[str, Any]:
    """Run programs without a budget and in one; path: of the file that has this process's stderr.

    faults: what the checker has found; counts: of all programs.
    """
    found: dict[str, Any] = {"faults": [], "plain": [], "others": []}
    counts = dict.fromkeys(("planned_steps", "evictions", "recomputes", "offloads"), 0)
    for seed in seeds:
        values, report = [], {}
        for memory in (None, f"{SHARES[seed % len(SHARES)]}%"):
            at = os.path.getsize(path)
            try:
                report = run(seed, memory, offload=bool(seed % 2))
            except RuntimeError as error:
                found["faults"].append(f"program {seed} in {memory}: {type(error).__name__}: {str(error)[:200]}")
            with open(path, encoding="utf-8", errors="replace") as log:
                log.seek(at)
                checked = Checker().read(log)
            found["faults" if memory else "plain"] += checked.faults[:3]
            values.append(checked.values)
        if values[0] != values[1]:
            found["others"].append((seed, *values))
        for name in counts:
            counts[name] += report.get(name, 0)
    return found | {"counts": counts}


def redirect(path: str) -> None:
    """Write what this process says on stderr, the phantom's log above all, to a file."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    sys.stderr.flush()
    os.dup2(file, 2)
