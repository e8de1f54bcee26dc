"""The pytest plugin: a marked test fails if it takes more memory of a card than allowed. No GPU is needed.

    @pytest.mark.gpu_peak("rtx-3060", "11GiB")
    def test_training_step():
        ...                                       # trains on the device "cuda"

    @pytest.mark.gpu_peak("rtx-3060", script="python train.py --epochs 1")
    def test_train(): ...

The test's function, with its fixtures, or the script instead of it, runs in a process of its own on the phantom GPU.
With `--gpu-peaks FILE`, peaks must also equal those in the file, to the byte; `--gpu-peaks-update` writes them.
"""

import inspect
import os
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from coopsim.base.option import takes
from coopsim.base.run_options import RunOptions
from coopsim.base.types import CoopsimError

if TYPE_CHECKING:
    from coopsim.run.gate import Baseline, Verdict

MARK = "gpu_peak"
_INSIDE = "COOPSIM_GATE_INSIDE"  #: variable set in the process in which a marked test's function is to run
_PYTEST = ("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist")
_STASH: "pytest.StashKey[Baseline]" = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options --gpu-peaks and --gpu-peaks-update."""
    group = parser.getgroup("coopsim", "memory of the GPU, without a GPU")
    group.addoption("--gpu-peaks", metavar="FILE", help=f"peaks of tests marked {MARK} must be those in this file")
    group.addoption("--gpu-peaks-update", action="store_true", help="write them there instead")


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark. Raises UsageError for a baseline that cannot be read, or written."""
    config.addinivalue_line("markers", f'{MARK}({_known()}): run on the phantom GPU, take at most "11GiB" of the card')
    path, update = config.getoption("--gpu-peaks"), bool(config.getoption("--gpu-peaks-update"))
    if update and path is None:
        raise pytest.UsageError("--gpu-peaks-update requires --gpu-peaks FILE")
    if path is not None and not os.environ.get(_INSIDE):
        from coopsim.run.gate import Baseline

        try:
            config.stash[_STASH] = Baseline.read(path, update=update)
        except CoopsimError as e:
            raise pytest.UsageError(str(e).replace("--update", "--gpu-peaks-update")) from None


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> object | None:
    """Run a marked test in a process on the phantom GPU, and fail here if its verdict does."""
    mark = pyfuncitem.get_closest_marker(MARK)
    if mark is None or os.environ.get(_INSIDE):
        return None
    verdict = _verdict(pyfuncitem, _read(mark))
    text = _text(verdict)
    pyfuncitem.add_report_section("call", "gpu memory", text)
    if not verdict.passed:
        pytest.fail(text, pytrace=False)
    return True


def _read(mark: pytest.Mark) -> "_Asked":
    try:
        return _asked(*mark.args, **mark.kwargs)
    except CoopsimError as e:
        pytest.fail(f"{MARK}: {e}", pytrace=False)
    except TypeError as e:
        why = str(e) if mark.args or mark.kwargs else "it names no card"
        pytest.fail(f'{MARK}: {why}; write it as @pytest.mark.{MARK}("rtx-3060", "11GiB")', pytrace=False)


@dataclass(frozen=True)
class _Asked:
    """The arguments of a mark. A function may do what it likes; a `script` is to train, unless `allow_no_step`."""

    card: str
    limit: str | None
    script: str | None
    allow_no_step: bool
    options: dict[str, Any]


@takes(RunOptions, "gate")
def _asked(
    card: str, limit: str | None = None, script: str | None = None, *, allow_no_step: bool = False, **options: Any
) -> _Asked:
    return _Asked(card, limit, script, allow_no_step, options)


def _known() -> str:
    """Return the parameters of a mark, as a call has them."""
    return ", ".join(
        name if of.default is of.empty else f"{name}={of.default!r}"
        for name, of in inspect.signature(_asked).parameters.items()
    )


def _verdict(item: pytest.Function, asked: _Asked) -> "Verdict":
    from coopsim.run import Script
    from coopsim.run.gate import check
    from coopsim.run.memory import of_card

    own = [*_PYTEST, f"--rootdir={item.config.rootpath}", item.nodeid]
    inside = ((_INSIDE, "1"), ("PYTEST_ADDOPTS", ""))
    free = asked.allow_no_step or asked.script is None
    update = bool(item.config.getoption("--gpu-peaks-update"))
    try:
        command = tuple(shlex.split(asked.script) if asked.script else own)
        job = Script(command, card=asked.card, variables=inside, **asked.options)
        baseline = item.config.stash.get(_STASH, None)
        nbytes = of_card(asked.card, asked.limit, MARK)
        verdict = check(job, name=item.nodeid, limit=nbytes, baseline=baseline, update=update, allow_no_step=free)
    except CoopsimError as e:
        reason = "the test fails there, too" if not asked.script and str(e).endswith("exit code 1") else str(e)
    else:
        if baseline and update and item.nodeid in baseline.runs:
            baseline.write(item.nodeid)
        return verdict
    pytest.fail(f"{MARK}: {reason}", pytrace=False)


def _text(verdict: "Verdict") -> str:
    from coopsim.run.gate.summary import append, text_of

    append(verdict)
    return text_of(verdict)


def pytest_report_header(config: pytest.Config) -> Any:
    """Name the baseline in the report's header."""
    path = config.getoption("--gpu-peaks")
    return f"GPU peaks: {path}" if path else None
