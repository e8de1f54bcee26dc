"""What is said of a script that fails: values that a card would have computed are blamed only where they may be."""

from typing import Any

import pytest

from coopsim.base.types import CoopsimError
from coopsim.run import Script
from coopsim.run.launch import failures
from coopsim.run.probes import probe
from coopsim.run.process import ProcessReport
from coopsim.run.records import Held, OutOfMemory, ScriptError, SizeFromData, ValueRead
from coopsim.run.records_memory import GrowingStorages, Growth, Holder, PartPeaks, PhasePeaks
from tests.conftest import Runner

READ = ValueRead("aten._local_scalar_dense.default", "train.py:5")
#: Functions under way: name of the file, first line, line that was running.
IN_THE_FUNCTION, IN_ANOTHER, BEFORE_IT = [("train.py", 3, 7)], [("train.py", 20, 27)], [("train.py", 3, 4)]


def said(error: str, functions: list[Any]) -> str:
    reports = [ProcessReport(error=ScriptError("train.py:7", error, tuple(functions)), last_value_read=READ)]
    with pytest.raises(CoopsimError) as e:
        failures.explain(Script(("train.py",)), 1, reports)
    return str(e.value)


@pytest.mark.parametrize(
    "error",
    ["IndexError: list index out of range", "ValueError: loss is 0", "AssertionError", "ZeroDivisionError: by zero"],
)
def test_a_value_is_named_that_may_be_the_reason(error: str) -> None:
    assert "last value read from the device was by aten._local_scalar_dense" in said(error, IN_THE_FUNCTION)


@pytest.mark.parametrize(
    ("error", "functions"),
    [
        ("RuntimeError: The size of tensor a (2) must match the size of tensor b (3)", IN_THE_FUNCTION),
        ("RuntimeError: mat1 and mat2 shapes cannot be multiplied (8x4 and 5x4)", IN_THE_FUNCTION),
        ("TypeError: f() takes 1 positional argument but 2 were given", IN_THE_FUNCTION),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'a'", IN_THE_FUNCTION),
        ("ModuleNotFoundError: No module named 'a'", IN_THE_FUNCTION),
        ("ValueError: unknown name", IN_ANOTHER),
        ("ValueError: unknown name", BEFORE_IT),
    ],
)
def test_a_value_that_cannot_be_the_reason_is_not_named(error: str, functions: list[Any]) -> None:
    assert said(error, functions) == f"train.py:7: {error}"


def test_data_are_not_blamed_for_a_missing_module() -> None:
    """Nor is the script run again with masks that keep nothing."""
    need = SizeFromData("aten.nonzero.default", "a.py:1", 1, "masks")
    error = ScriptError("a.py:3", "ModuleNotFoundError: No module named 'apex'", ())
    with pytest.raises(CoopsimError, match=r"^a.py:3: ModuleNotFoundError: No module named 'apex'$") as e:
        failures.explain(Script(("a.py",)), 1, [ProcessReport(error=error, needs_data=[need])])
    assert not isinstance(e.value, failures.DependsOnDataError)


@pytest.mark.parametrize(
    "lost",
    [
        "subprocess.CalledProcessError: Command '['python', 'child.py']' returned non-zero exit status 1.",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
        "torch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with exit code 1",
    ],
)
def test_the_child_s_reason_is_said_and_not_its_parent_s(lost: str) -> None:
    reports = [ProcessReport(error=ScriptError(f"{i}.py:1", text, ())) for i, text in enumerate([lost, "KeyError: 1"])]
    with pytest.raises(CoopsimError, match=r"^1.py:1: KeyError: 1$"):
        failures.explain(Script(("train.py",)), 1, reports)


def test_a_report_crosses_to_the_parent_as_it_is() -> None:
    held = [Held("activation", "aten.mm.default", "Net", 1, 9)]
    out = OutOfMemory("a.py:1", "aten.mm.default", "Net", "forward", 2, 1, 2, 3, 4, 5, {"other": 2}, held)
    said = ProcessReport(used=True, error=ScriptError("a.py:3", "ValueError", (("a.py", 1, 3),)), out_of_memory=out)
    said.evaluation_peaks, said.lost = (1, 2), {"host": "OSError: none"}
    said.needs_data = [SizeFromData("op", "a.py:1", 3, "even")]
    said.phases = {"load": PartPeaks(1), "evaluation": PhasePeaks(2)}
    said.growth = Growth(3, 9, 8, (GrowingStorages("op", "Net", "", 8),), (Holder("kept", "list", "a.py:2", 1, 8, 0),))
    assert ProcessReport.read(said.message()) == said


def test_watching_that_fails_is_said_even_where_the_script_ended_well() -> None:
    with pytest.raises(CoopsimError, match="watching train"):
        failures.explain(Script(("train.py",)), 0, [ProcessReport(failure="KeyError: 'all'")])


class Fails(probe.Probe):
    def report(self, _found: ProcessReport) -> None:
        raise RuntimeError("no figures\nat all")


def test_a_probe_with_a_name_can_be_lost_and_one_without_cannot(capsys: pytest.CaptureFixture[str]) -> None:
    named, found = Fails(), ProcessReport()
    named.name = "growth"
    probe.fill([named], found)
    assert found.lost == {"growth": "RuntimeError: no figures"}
    assert "Traceback" in capsys.readouterr().err
    with pytest.raises(RuntimeError, match="no figures"):
        probe.fill([Fails()], found)


COMPILERS = r"""
from coopsim.run.launch.inside import _first_line
head = "Error building extension 'k'"
text = head + ": [1/2] /usr/bin/nvcc -c k.cu -o k.o\nFAILED: k.o\nk.cu(3): error: foo is undefined\n1 error detected"
answer([_first_line(RuntimeError(said)) for said in (text, head + ": [1/2] nvcc", "one\ntwo error: three", "")])
"""


def test_a_compiler_s_error_is_said_and_not_its_command(on_phantom: Runner) -> None:
    head = "Error building extension 'k'"
    assert on_phantom(COMPILERS) == [f"{head}: k.cu(3): error: foo is undefined", f"{head}: [1/2] nvcc", "one", ""]
