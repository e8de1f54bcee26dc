"""Plans as files: what is written is read again, the same bytes each time, and nothing else is taken for one."""

import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from coopsim.live import plan_file
from coopsim.live.errors import LiveError
from coopsim.live.host import Hosting
from coopsim.live.plan import Entry
from coopsim.live.plan_file import PlanFile
from coopsim.live.schedules import Search
from coopsim.live.signatures import Candidate, PlanState, Signature
from coopsim.trace import synth
from coopsim.trace.measure import peak_bytes
from tests.live.plans import EMPTY


def small() -> PlanFile:
    trace = synth.chain(8)
    op_log = [Entry("aten.mm.default", [[[2, 3, "float32"]], []], [0, -1], [1], i, False) for i in range(trace.n_ops)]
    candidate = Search(trace, "coop", 1 << 40).leaving(0)
    assert isinstance(candidate, Candidate)
    first = Signature(trace, op_log, 3, True, PlanState(candidate=replace(candidate, margin=7)))
    steady = Signature(trace, op_log, 3, state=PlanState("it does not fit", stays=True))
    return replace(EMPTY, signatures=[first, steady])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "step.plan"
    plan_file.save(small(), path)
    return path


def test_what_was_written_is_read(file: Path, tmp_path: Path) -> None:
    found = plan_file.load(file)
    assert replace(found, signatures=()) == EMPTY
    assert [k.op_log for k in found.signatures] == [k.op_log for k in small().signatures]
    assert [(k.first, k.state.schedule is None, k.state.why, k.state.margin) for k in found.signatures] == [
        (True, False, "", 7), (False, True, "it does not fit", 0)
    ]  # fmt: skip
    assert [k.state.stays for k in found.signatures] == [False, True]
    assert {k.peak_bytes for k in found.signatures} == {peak_bytes(synth.chain(8), 512)}
    again = tmp_path / "again.plan"
    plan_file.save(found, again)
    assert again.read_bytes() == file.read_bytes()


def test_how_long_planning_took_is_not_in_it(file: Path, tmp_path: Path) -> None:
    """The same plans give the same bytes."""
    found, again = small(), tmp_path / "again.plan"
    candidate = found.signatures[0].state.candidate
    assert isinstance(candidate, Candidate)
    took = candidate.schedule.header | {"search_ns": 123, "planning_ns": 456}
    slower = replace(candidate, schedule=replace(candidate.schedule, header=took))
    found.signatures[0].state = PlanState(candidate=slower)
    plan_file.save(found, again)
    assert again.read_bytes() == file.read_bytes()


def changed(file: Path, **members: Callable[[Any], Any]) -> None:
    """Write a file again, with some members (their dots as _) made anew from what they hold, as JSON."""
    with zipfile.ZipFile(file) as archive:
        held = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in held.items():
            change = members.get(name.replace(".", "_").replace("/", "_"))
            archive.writestr(name, json.dumps(change(json.loads(data))) if change else data)


def test_one_of_the_version_before_does_not_offload(file: Path) -> None:
    def older(head: dict[str, Any]) -> dict[str, Any]:
        del head["hosting"]
        return head | {"plan_version": 1}

    changed(file, plan_json=older)
    assert replace(plan_file.load(file), signatures=()) == replace(EMPTY, plan_version=1)


def test_what_plans_may_use_of_the_host_is_kept(file: Path, tmp_path: Path) -> None:
    found, again = plan_file.load(file), tmp_path / "again.plan"
    hosting = Hosting("pcie3-x16", 1 << 30)
    plan_file.save(replace(found, hosting=hosting), again)
    assert plan_file.load(again).hosting == hosting


def test_one_that_does_not_say_is_not_for_an_arena(file: Path) -> None:
    def older(head: dict[str, Any]) -> dict[str, Any]:
        del head["arena"]
        return head

    changed(file, plan_json=older)
    assert replace(plan_file.load(file), signatures=()) == EMPTY
    assert not EMPTY.arena


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-200])


def flipped(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0x55
    file.write_bytes(bytes(data))


@pytest.mark.parametrize(("damage", "line"), [
    (cut, "not a plan, or damaged"),
    (flipped, "damaged"),
    (lambda f: f.write_text("no archive"), "not a plan"),
    (lambda f: f.unlink(), "no such file"),
    (lambda f: changed(f, plan_json=lambda head: head | {"plan_version": 99}), "newer than this coopsim"),
    (lambda f: changed(f, plan_json=lambda head: head | {"more": 1}), "not a plan of coopsim live"),
    (lambda f: changed(f, plan_json=lambda head: head | {"hosting": {"link": "", "state": True}}), "--offload-state"),
    (lambda f: changed(f, plan_json=lambda head: [head]), "not a plan of coopsim live"),
    (lambda f: changed(f, **{"0_tape_json": lambda t: [[*t[0][:2], [10**6], *t[0][3:]]]}), "not of its trace"),
])  # fmt: skip
def test_what_is_no_plan_is_refused_in_one_line(file: Path, damage: Callable[[Path], Any], line: str) -> None:
    damage(file)
    with pytest.raises(LiveError, match=line) as refused:
        plan_file.load(file)
    assert "\n" not in str(refused.value)
