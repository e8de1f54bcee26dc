"""Why a run of a script failed for another reason than the card's memory, from the reports of its processes."""

import re

from coopsim.base.errors import CaptureError
from coopsim.run.launch import host_limit
from coopsim.run.process import ProcessReport
from coopsim.run.records import ScriptError
from coopsim.run.report import Report
from coopsim.run.script import Script


class HostRanOutError(CaptureError):
    """The host's memory ran out; `report` has what was known until then."""

    def __init__(self, said: str, report: Report) -> None:
        super().__init__(said, report)
        self.report = report

    def __str__(self) -> str:
        return str(self.args[0])


class DependsOnDataError(CaptureError):
    """The script failed after it had taken sizes from data of which nothing is known."""


def host_ran_out(code: int, reports: list[ProcessReport]) -> str:
    """Return the line of an error by which the host's memory ran out; "" if it did not."""
    errors = [report.error for report in reports if report.error and host_limit.ran_out(report.error.error)]
    if not errors or not code:
        return ""
    place, said = errors[0].place, errors[0].error
    said = said if said.startswith(host_limit.RAN_OUT) else f"{host_limit.RAN_OUT}: {said}"
    return f"{place}: {said}" if place else said


def unused(script: Script) -> CaptureError:
    return CaptureError(f"{script.title} never used the GPU: nothing in it ran on the device cuda")


def explain(script: Script, code: int, reports: list[ProcessReport]) -> None:
    """Raise CaptureError if the script failed, with what is known about the reason."""
    for report in reports:
        unmet = report.compile_unmet or report.unmet
        if unmet:  # the script may have caught the error and gone on without
            raise CaptureError(unmet)
    for report in reports:
        if report.failure and (code or not report.used):
            raise CaptureError(f"watching {script.title} failed: {report.failure}")
    if code == 0:
        return
    failed = [report for report in reports if report.error]
    own = [report for report in failed if report.error and not _OF_A_CHILD.match(report.error.error)]
    report = next(iter(own or failed), ProcessReport())
    error = report.error
    if error is None:
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        how += ", as by Linux when the host's memory runs out" if code in _KILLED else ""
        raise CaptureError(f"{script.title} {how}")
    hint, kind = "", CaptureError
    unknown = [need for need in report.needs_data if need.by == "masks"]
    if unknown and not _NEVER_OF_DATA.match(error.error):
        kind = DependsOnDataError
        first = unknown[0]
        hint = f"; {first.op} at {first.place} depends on data on the device, which is unknown here"
    elif not script.card and any(said in error.error for said in _NO_GPU):
        hint = "; to try it without a GPU, name a card to imitate: --gpu rtx-3060"
    elif (last := report.last_value_read) and _may_rest_on(error, last.place):
        hint = f"; the last value read from the device was by {last.op} at {last.place}, and is 0 here"
    elif _NO_RANK.search(error.error):  # it lacks variables that torchrun sets
        hint = "; it is a rank of a job: start it by its launcher (torchrun), or with --world N"
    where = error.place or script.title
    raise kind(f"{where}: {error.error}{hint}")


def _may_rest_on(error: ScriptError, place: str) -> bool:
    """Whether an error may be due to a value that was read at `place`, and that a card would have computed.

    It must be of a kind that values cause, and the value be read in a function under way, no later than it had come.
    """
    if not _OF_VALUES.match(error.error) or _OF_SHAPES.search(error.error):
        return False
    file, _, line = place.rpartition(":")
    return any(file == name and first <= int(line) <= now for name, first, now in error.functions)


#: Errors that no data of the device cause.
_NEVER_OF_DATA = re.compile(r"(Import|ModuleNotFound|FileNotFound|Permission|Syntax|Name)Error\b")

#: Errors that a wrong value may cause, and those of these kinds that it does not.
_OF_VALUES = re.compile(
    r"(\w+\.)*(\w*(Value|Index|Key|ZeroDivision|Arithmetic|FloatingPoint|Overflow|Assertion|Runtime|Stop\w*))(Error)?\b"
)
_OF_SHAPES = re.compile(
    r"must match the size|shapes? .*(cannot be|mismatch|invalid)|same device|dtype|can't allocate|not implemented|"
    r"CUDA error|requires? grad|backward through the graph|state_dict|does not require"
)

#: Errors of a process whose child failed, which has the reason.
_OF_A_CHILD = re.compile(
    r"(\w+\.)*(CalledProcessError|ChildFailedError|ProcessRaisedException|ProcessExitedException)\b"
)

#: Exit codes of a process that was killed (SIGKILL), or whose child was.
_KILLED = (-9, 128 + 9)

#: PyTorch's errors where there is no GPU.
_NO_GPU = ("No CUDA GPUs are available", "Found no NVIDIA driver", "not compiled with CUDA enabled")

#: Errors of a script that needs the variables of a rank and is not started as one.
_NO_RANK = re.compile(r"KeyError: '(LOCAL_|GROUP_)?(RANK|WORLD_SIZE)'|environment variable (RANK|WORLD_SIZE) expected")

#: Errors of Gloo, the store and NCCL when another process has ended.
_LOST_A_PEER = (
    "closed by peer",
    "reset by peer",
    "Broken pipe",
    "DistNetworkError",
    "DistStoreError",
    "ncclRemoteError",
)


def by_rank(failed: list[tuple[int, str]]) -> str:
    """Return one line per reason for which ranks failed; the loss of another rank only if there is no other."""
    own = [(rank, reason) for rank, reason in failed if not any(lost in reason for lost in _LOST_A_PEER)]
    reasons: dict[str, list[int]] = {}
    for rank, reason in own or failed:
        reasons.setdefault(reason, []).append(rank)
    return "\n".join(f"rank{'s' * (len(of) > 1)} {', '.join(map(str, of))}: {why}" for why, of in reasons.items())
