"""Train a program on the CPU with its tensors in an arena, by a plan, and compare the bits with a plain run."""

from dataclasses import replace
from typing import Any

import torch

from coopsim.live import make, observer, plan_file
from coopsim.live.arena import library, placed
from coopsim.live.arena.place import Places
from coopsim.live.arena.placed import Placed
from coopsim.live.arena.requests import TO_THE_END, Requests
from coopsim.live.budget import Budget, offer
from coopsim.live.copies import host_memory
from coopsim.live.errors import LiveError
from coopsim.live.host import Hosting
from coopsim.live.plan import Plan
from coopsim.live.session import TrainingSession
from coopsim.record.observe.extension import Extension
from tests.live.compare import FastHost, bits, plain
from tests.live.programs import PROGRAMS

POLICY = "foresight-offline"


#: In the allocator, what sees to it that nobody gets a place that is taken; and a fault in its stead.
GUARD = "if (at < 0 || !is_free(at, n)) at = anywhere(n);"
NO_GUARD = """if (at < 0) at = anywhere(n);
    if (!is_free(at, n)) {
      void* taken = reinterpret_cast<void*>(base_ + at);
      doubles.insert(taken);
      return taken;
    }"""
GIVE = "  bool give(void* pointer) {\n"
GIVE_DOUBLE = """  std::multiset<void*> doubles;
  bool give(void* pointer) {
    if (auto found = doubles.find(pointer); found != doubles.end()) {
      doubles.erase(found);
      return true;
    }
"""


KEPT: list[torch.UntypedStorage] = []  #: the memory of arenas


def serve_cpu(nbytes: int) -> library.Arena:
    """An arena of so many bytes of the host's memory, in which PyTorch's tensors on the CPU lie from now on."""
    memory, lib = host_memory(nbytes), library.load()
    assert memory is not None
    KEPT.append(memory)
    lib.coopsim_arena_host(memory.data_ptr(), nbytes)
    lib.coopsim_arena_serve_cpu()
    return library.Arena(library.HOST)


def record(name: str, share: float, path: str, *, offload: bool = False) -> dict[str, Any]:
    """Two steps in an arena that is large enough, and a plan for a share of the peak, with addresses, into a file."""
    hosting = FastHost() if offload else None
    torch.set_num_threads(1)
    session = TrainingSession(None, POLICY, "cpu", arena=serve_cpu(1 << 30))
    _, step = PROGRAMS[name]()
    for i in range(2):
        session.begin()
        step(i)
        session.end()
    for kind in session.known.signatures:
        kind.trace.cost_ns[:] = 1000 * (kind.trace.cost_ns > 0)  # measured, so never twice the same
    session.learner.save(path, name)
    file = plan_file.load(path)
    budget = int(share * max(kind.peak_bytes for kind in session.known.signatures))
    how: dict[str, Any] = {"search": False, "arena": True, "hosting": hosting}
    how["on_gpu"] = False  # the host's time for copies would rule them out
    made = [make.make(kind, POLICY, budget, 0, **how) for kind in file.signatures]
    file = replace(file, budget_bytes=budget, hosting=Hosting() if offload else None)
    plan_file.save(replace(file, signatures=[m.signature for m in made]), path)
    return {"why": [m.signature.state.why for m in made], "budget": budget}


def train(name: str, path: str, steps: int, slack: float = 1.0) -> dict[str, Any]:
    """Report and figures of the arena; and `same`: were losses and all states those of a run without any of it?"""
    losses, wanted = plain(name, steps)
    nbytes = plan_file.load(path).budget_bytes
    arena = serve_cpu(int(slack * nbytes))
    torch.manual_seed(1)
    state, step = PROGRAMS[name]()
    session = TrainingSession(None, POLICY, "cpu", path, arena)
    offer(lambda: session)
    budget, found, got = Budget(plan=path), [], []
    for i in range(steps):
        before = int(arena.stats.planned), int(arena.stats.placed)
        try:
            with budget.step():
                found.append(step(i))
        except LiveError as error:  # of an account that does not add up
            return {"same": False, "error": str(error)}
        got.append((arena.stats.planned - before[0], arena.stats.placed - before[1]))
    stats = {key: int(getattr(arena.stats, key)) for key in ("reserved_peak", "size", "allocated_peak")}
    keys = "planned_steps", "offloads", "evictions", "recomputes", "deviations", "deviated"
    report = {key: getattr(session.totals, key) for key in keys}
    return report | stats | {"same": losses == found and wanted == bits(state), "placed": got, "budget": nbytes}


def without_guard() -> None:
    """The allocator of this process gives out what a plan says, whoever has it."""
    own = Extension.source

    def source(extension: Extension, name: str) -> str:
        text = own(extension, name)
        if name == "arena.cpp":
            assert GUARD in text
            assert GIVE in text
            text = (
                text.replace(GUARD, NO_GUARD)
                .replace(GIVE, GIVE_DOUBLE)
                .replace("#include <vector>", "#include <set>\n#include <vector>")
            )
        return text

    Extension.source = source  # type: ignore[method-assign]


def shift_addresses() -> None:
    """Every second request has its place too low by one granule."""
    own = Placed.places

    def places(self: Placed, plan: Plan, at: int = 0, decided: int = 0) -> Places:
        found = own(self, plan, at, decided)
        return replace(found, offset=[o - 512 if i % 2 and o >= 512 else o for i, o in enumerate(found.offset)])

    Placed.places = places  # type: ignore[method-assign]


def end_too_early() -> None:
    """Places are planned as if everything was given back after half its time."""
    own = placed.requests_of

    def requests_of(plan: Plan) -> Requests:
        found = own(plan)
        found.until = [u if u == TO_THE_END else (i + u + 1) // 2 for i, u in enumerate(found.until)]
        return found

    placed.requests_of = requests_of


def in_python_alone() -> None:
    """No observer."""
    observer.find = lambda **_: (None, "not wanted")
