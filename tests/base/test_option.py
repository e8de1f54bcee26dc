"""Options that are declared once: what the command line, Python and a script's processes make of a declaration."""

import argparse
import inspect
from dataclasses import dataclass, fields
from typing import Any

import pytest

import coopsim
from coopsim.base.capture_options import CaptureOptions
from coopsim.base.option import Excluded, add, check_exclusions, declared, given, option, takes
from coopsim.base.run_options import InProcess, RunOptions
from coopsim.base.types import CoopsimError
from coopsim.cli.flags_phantom import PhantomRun
from coopsim.record.capture import Job
from coopsim.run import Script
from coopsim.run.task import Task


@dataclass(frozen=True, kw_only=True)
class Mine(RunOptions):
    """One more option: no other line names it."""

    noise: str = option(
        "", "what noise is, {said}", "run", said={"fit": "in fit"}, choices=("white", "pink"), excludes=("steps",),
        why="--noise and {} exclude each other", requires=("lengths",), in_key=True,
    )  # fmt: skip
    steps: int | None = option(None, "steps", "run", parse=int)
    lengths: str | None = option(None, "lengths", "run")


def parsed(*words: str) -> argparse.Namespace:
    p = argparse.ArgumentParser()
    add(p, Mine, "run")
    return p.parse_args(words)


def test_a_declaration_is_a_flag_a_parameter_and_a_rule() -> None:
    assert given(Mine, parsed("--noise", "pink"), "run") == {"steps": None, "lengths": None, "noise": "pink"}
    check_exclusions(Mine, parsed("--noise", "pink", "--lengths", "f"), "run")
    with pytest.raises(CoopsimError, match="--noise requires --lengths"):
        check_exclusions(Mine, parsed("--noise", "pink"), "run")
    with pytest.raises(CoopsimError, match="--noise and --steps exclude each other"):
        check_exclusions(Mine, parsed("--noise", "pink", "--lengths", "f", "--steps", "2"), "run")

    @takes(Mine, "run")
    def call(script: str, **options: Any) -> dict[str, Any]:
        return options

    assert list(inspect.signature(call).parameters) == ["script", "steps", "lengths", "noise"]
    assert call("s", noise="white") == {"noise": "white"}
    with pytest.raises(CoopsimError, match="unknown noise 'red'; it is white or pink"):
        call("s", noise="red")
    with pytest.raises(TypeError, match="unexpected keyword argument 'nois'"):
        call("s", nois="pink")


def test_what_is_declared_reaches_scripts_processes_and_steps() -> None:
    assert declared(Script).keys() == declared(RunOptions).keys()
    assert declared(Task).keys() == declared(InProcess).keys()
    assert declared(Job).keys() == declared(CaptureOptions).keys()
    for function, kind, verb in ((coopsim.fit, RunOptions, "fit"), (coopsim.capture, CaptureOptions, "capture")):
        assert declared(kind, verb).keys() <= inspect.signature(function).parameters.keys()


def test_rules_name_options_that_there_are() -> None:
    known = {field.name for field in fields(PhantomRun)}
    for _, of in declared(PhantomRun).values():
        assert {one.name if isinstance(one, Excluded) else one for one in (*of.excludes, *of.requires)} <= known
        assert bool(of.excludes) == bool(of.why)
