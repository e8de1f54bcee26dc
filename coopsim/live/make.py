"""Makes plans for recorded steps without a GPU: whether they fit, at what cost, and in how little. Knows no torch.

`Background` makes them in a process of its own while a program's steps go on. It is started with the session, so that
the planner's code is loaded, and compiled if need be, before the first question.

Steps that dispatch the same ops on the same sizes have one signature, of which one was recorded. A margin is a number
of bytes that a plan leaves of the budget, for what the allocator cannot use.
"""

import contextlib
import os
import pickle
import shutil
import signal
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from coopsim.live import schedules
from coopsim.live.arena.place import place, stays
from coopsim.live.arena.requests import requests_of
from coopsim.live.host import Hosting, StepTime, step_time
from coopsim.live.ladder import PlanningParameters, placed
from coopsim.live.plan import Plan
from coopsim.live.schedules import Found, Least, Search
from coopsim.live.signatures import Chosen, NoPlan, Signature
from coopsim.run.task import FOLDER
from coopsim.trace import synth

_CLOSE = 0.02  #: of the peak, the accuracy of the smallest budget that has a plan
#: Variables by which a process becomes one of the script's, or loads the phantom GPU.
_OF_SCRIPT = (FOLDER, "LD_PRELOAD", "LD_LIBRARY_PATH")


@dataclass(frozen=True)
class Made:
    """A step signature with its plan for a budget. Bytes are those of everything on the device.

    peak_bytes: of the step without eviction. least: what any schedule needs. least_planned_bytes: the smallest of the
    budgets tried for which a plan was found; None if there was none, or none was tried. on_gpu: where steps run.
    """

    signature: Signature
    peak_bytes: int
    least: Least
    least_planned_bytes: int | None
    on_gpu: bool

    @property
    def time(self) -> StepTime | None:
        """The predicted times of a step by the plan; None if there is none."""
        signature, schedule = self.signature, self.signature.state.schedule
        ops = len(signature.op_log) * self.on_gpu
        return step_time(signature.trace, schedule, ops) if schedule is not None else None


def make(
    signature: Signature,
    policy: str,
    budget: int,
    others: int,
    *,
    search: bool = True,
    arena: bool = False,
    hosting: Hosting | None = None,
    on_gpu: bool = True,
) -> Made:
    """Plan a step signature for a budget in bytes, of which `others` bytes are not the program's (workspaces and such).

    search: look for the smallest budget that has a plan, too. arena: all requests need addresses within the budget.
    hosting: what the plan may use of the host. on_gpu: where steps run. The state of the result's signature has the
    schedule, or says why there is none.
    """
    p, ops = PlanningParameters(), len(signature.op_log) if on_gpu else 0
    margin = p.margins(budget)[0] if on_gpu else 0
    seek = Search(signature.trace, policy, budget, others, hosting, ops, margin)
    least, room = schedules.least(signature.trace), seek.room
    found = at_start(signature.op_log, seek, p) if arena else seek.first()
    made = replace(signature, state=NoPlan(found.why, found.candidate))
    smallest = _smallest(made, policy, least.nbytes, room) if search else None
    return Made(
        made,
        signature.peak_bytes + others,
        replace(least, nbytes=least.nbytes + others),
        smallest + others if smallest is not None else None,
        on_gpu,
    )


def at_start(op_log: Sequence[Any], search: Search, p: PlanningParameters) -> Found:
    """A schedule of a step whose requests have addresses in an arena that is still empty, or one that needs least.

    op_log: the step's ops (plan.Entry).
    """
    if why := search.too_much():
        return Found(None, why, too_much=True)

    def choose(margin: int) -> Chosen | str:
        found = search.leaving(margin).candidate
        if found is None:
            return "no schedule was found that fits"
        return found, Plan(search.trace, found.schedule, op_log)

    def needed(plan: Plan) -> int:
        asked = requests_of(plan)
        resting = ((0, stays(asked, search.trace, search.others)),)  # as one block
        return place(asked, resting, search.limit).needed

    chosen = placed(p.arena_margins(search.limit), choose, needed, search.limit)
    return Found(None, chosen) if isinstance(chosen, str) else Found(chosen[0])


def _smallest(made: Signature, policy: str, least: int, room: int) -> int | None:
    """The smallest budget with a plan, by bisection down to the lower bound; None if not even the peak has one."""
    peak = made.peak_bytes
    known = room if made.state.schedule is not None and room < peak else peak if _plans(made, policy, peak) else None
    while known is not None and known - least > _CLOSE * peak:
        middle = (least + known) // 2
        if _plans(made, policy, middle):
            known = middle
        else:
            least = middle
    return known


def _plans(made: Signature, policy: str, room: int) -> bool:
    return not schedules.explain(schedules.find(made.trace, policy, room))


class Background:
    """Its process answers questions one after the other, and ends with this one, whatever it is doing.

    `alive` is False once it has failed: nothing is answered.
    """

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="coopsim-"))  # nobody else's, so what is in it may be unpickled
        self._number = 0
        self._asked: dict[Signature, tuple[int, Search]] = {}
        environment = {name: value for name, value in os.environ.items() if name not in _OF_SCRIPT}
        self._child = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", "coopsim.live.make", str(self._folder)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._end = weakref.finalize(self, _end, self._child, self._folder, os.getpid())

    @property
    def alive(self) -> bool:
        """Whether questions are answered."""
        return self._end.alive and self._child.poll() is None

    def ask(self, signature: Signature, search: Search) -> None:
        """Ask for the first plan of a signature, and return at once. An earlier question about it is forgotten."""
        self._number += 1
        self._asked[signature] = self._number, search
        _file(self._folder, self._number, "question").write_bytes(pickle.dumps(search))
        assert self._child.stdin is not None
        with contextlib.suppress(OSError):  # it has died, and `alive` says so
            self._child.stdin.write(f"{self._number}\n".encode())
            self._child.stdin.flush()

    def is_asked(self, signature: Signature | None = None) -> bool:
        """Whether a question about a signature, or any at all, has no answer yet that `answers` has given."""
        return bool(self._asked) if signature is None else signature in self._asked

    def answers(self) -> Iterator[tuple[Signature, Search, Found | None]]:
        """The searches that were answered since, each once; with None for all that never will be."""
        alive = self.alive
        for signature, (number, search) in list(self._asked.items()):
            file = _file(self._folder, number, "answer")
            if file.exists():
                found = pickle.loads(file.read_bytes())  # noqa: S301 (our own child's)
                file.unlink()
            elif alive:
                continue
            else:
                found = None
            del self._asked[signature]
            yield signature, search, found

    def end(self) -> None:
        """End the process."""
        self._end()


def _file(folder: Path, number: int, what: str) -> Path:
    return folder / f"{number}.{what}"


def _end(child: "subprocess.Popen[bytes]", folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # not in a fork, whose parent goes on
        child.kill()
        child.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _main(folder: Path) -> None:
    """Answer the questions whose numbers come by stdin, until its end: then the program is over."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is for the program, which ends this process as it ends
    os.nice(5)  # the program's own threads come first
    trace = synth.chain()
    schedules.find(trace, "foresight-offline", int(schedules.least(trace).nbytes * 1.5))  # loads and compiles kernels
    for line in sys.stdin:
        question = _file(folder, int(line), "question")
        found = pickle.loads(question.read_bytes()).first()  # noqa: S301 (our own parent's)
        question.unlink()
        part = _file(folder, int(line), "part")
        part.write_bytes(pickle.dumps(found))
        part.rename(_file(folder, int(line), "answer"))


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
