"""A step that is interrupted at the n-th call of a function of coopsim/live, or by an error of the program's own.

The program then goes on, with the bits that it would have without a budget.
"""

import copy
import random
import sys
from collections.abc import Iterable
from typing import Any

import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack as modes

import coopsim.live

PATCHED = (torch.Tensor, ("numpy", "data_ptr", "__dlpack__")), (torch.UntypedStorage, ("data_ptr",))


class Interrupts:
    """Counts the calls; at number `at` it raises."""

    def __init__(self, at: int) -> None:
        self.at, self.calls = at, 0

    def __call__(self, frame: Any, event: str, _arg: Any) -> Any:
        if event == "call" and "/coopsim/live/" in frame.f_code.co_filename:
            self.calls += 1
            if self.calls == self.at:
                sys.settrace(None)
                self.where = f"{frame.f_code.co_filename.rpartition('/live/')[2]}:{frame.f_code.co_name}"
                raise KeyboardInterrupt


class Trained:
    """A program that keeps activations, in a budget or without. where: it fails there by itself in step `failing`."""

    def __init__(self, memory: str | None, where: str = "", failing: int = 3) -> None:
        torch.manual_seed(0)
        self.net = torch.nn.ModuleList(torch.nn.Linear(48, 48) for _ in range(5))
        self.opt = torch.optim.SGD(self.net.parameters(), 0.1, momentum=0.9)
        self.budget = coopsim.live.Budget(memory, device="cpu") if memory else None
        self.where, self.failing, self.at = where, failing, 0
        self.kept: list[torch.Tensor] = []
        self.net[3].register_forward_hook(lambda *_: self._fail("hook"))

    def _fail(self, where: str) -> None:
        if where == self.where and self.at == self.failing:
            raise ValueError(where)

    def _ops(self) -> None:
        self.kept.clear()
        h = torch.randn(256, 48)
        for layer in self.net:
            h = torch.tanh(layer(h))
            if len(self.kept) < 2:
                self.kept.append(h)
        self._fail("forward")
        if self.where == "op" and self.at == self.failing:
            h @ h
        h.register_hook(lambda _: self._fail("backward"))
        h.square().mean().backward()
        self._fail("optimizer")
        self.opt.step()

    def step(self, interrupts: Interrupts | None = None) -> str:
        """One step, and what ended it: "" if it came to its end."""
        said = ""
        try:
            if interrupts is not None:
                sys.settrace(interrupts)
            if self.budget is not None:
                with self.budget.step():
                    self._ops()
            else:
                self._ops()
        except (KeyboardInterrupt, ValueError, RuntimeError) as error:
            said = type(error).__name__
        finally:
            sys.settrace(None)
        self.opt.zero_grad()
        self.at += 1
        return said

    def left(self) -> list[Any]:
        """All that the program can see: activations, parameters, state."""
        state = [t for one in self.opt.state.values() for t in one.values() if isinstance(t, torch.Tensor)]
        return [t.detach().numpy().tobytes() for t in (*self.kept, *self.net.parameters(), *state)]


def is_clean() -> list[str]:
    """What a step has left in place of PyTorch's own, which is nothing."""
    owned = [(name, vars(owner).get(name)) for owner, names in PATCHED for name in names]
    patched = [name for name, own in owned if "coopsim" in (getattr(own, "__module__", "") or "")]
    hook = [] if sys.unraisablehook is sys.__unraisablehook__ else ["sys.unraisablehook"]
    return [str(mode) for mode in modes()] + patched + hook


def count(step: int) -> int:
    """The calls in that step."""
    trained = Trained("80%")
    for _ in range(step):
        trained.step()
    interrupts = Interrupts(-1)
    trained.step(interrupts)
    return interrupts.calls


def interrupted(step: int, at: int) -> str:
    """Interrupt that step there. What is wrong afterwards, "" if nothing is.

    The program then goes on from what it has: a copy of it, in a run without a budget, has to end with the same bits.
    """
    trained = Trained("80%")
    for _ in range(step):
        trained.step()
    interrupts = Interrupts(at)
    said = trained.step(interrupts)
    where = f"step {step}, call {at}, {getattr(interrupts, 'where', 'nowhere')}"
    if said != "KeyboardInterrupt":
        return f"{where}: {said or 'swallowed'}"
    if found := is_clean():
        return f"{where}: {found} stays"
    try:
        first = trained.left()
    except RuntimeError as error:
        return f"{where}: {error}"
    plain = Trained(None)
    plain.net.load_state_dict(trained.net.state_dict())
    plain.opt.load_state_dict(copy.deepcopy(trained.opt.state_dict()))
    for one in (plain, trained):
        torch.manual_seed(1)
        for _ in range(3):
            one.at = 9
            if said := one.step():
                return f"{where}: then {said}"
    return "" if first and plain.left() == trained.left() else f"{where}: other numbers"


def at_random(step: int, n: int, seed: int) -> list[str]:
    """Interrupt a step at `n` random calls."""
    calls = count(step)
    draw = random.Random(seed)
    return [found for at in draw.sample(range(1, calls + 1), min(n, calls)) if (found := interrupted(step, at))]


def at_the_end(step: int, before: Iterable[int]) -> list[str]:
    """Interrupt a step so many calls before its last."""
    calls = count(step)
    return [found for n in before if (found := interrupted(step, calls - n))]


def failed(where: str) -> list[str]:
    """Let the program fail there in a step by plan, as without a budget; and go on."""
    found = []
    ends = []
    for memory in (None, "80%"):
        trained = Trained(memory, where)
        said = [trained.step() for _ in range(7)]
        found += is_clean()
        ends.append((said, trained.left()))
    return found + ([] if ends[0] == ends[1] else [f"{where}: other numbers {ends[0][0]} {ends[1][0]}"])
