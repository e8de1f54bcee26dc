"""The flags of `sweep` and `map`, which say what to replay and where, and the grid that they stand for."""

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from coopsim.base.types import CoopsimError
from coopsim.cli import flags_shared
from coopsim.cli.flags_shared import OF_TORCH, positive, positives

if TYPE_CHECKING:
    from pathlib import Path

    from coopsim.study.sweep import Grid, Workers

POLICIES = "dtr-oneflow,dte-oneflow,coop"
BUDGETS = "100%:30%:10%"
SCAN = {"largest": "100%", "smallest": "10%", "step": "0.5%", "fine": ""}


def add_sweep(p: argparse.ArgumentParser) -> None:
    """Flags of `sweep`. Flags that a file may set have no default here, as a flag overrides the file."""
    _add(p, "R")
    p.add_argument("--budget", metavar="B,B|FROM:TO:STEP", help=f"budgets (default: {BUDGETS.replace('%', '%%')})")
    p.add_argument("--band", type=positive, metavar="N", help="replay N neighbouring budgets for each (default: 1)")
    flags_shared.band_width(p, None)
    _add_where(p)


def add_map(p: argparse.ArgumentParser) -> None:
    _add(p, "M")
    p.add_argument("--largest", metavar="B", help="largest budget, in %% of the peak without eviction (default: 100%%)")
    p.add_argument("--smallest", metavar="B", help="smallest budget (default: 10%%)")
    p.add_argument("--step", metavar="S", help="distance between two budgets (default: 0.5%%)")
    p.add_argument("--fine", metavar="S", help="distance where the outcome changes (default: a tenth of the step)")
    _add_where(p)


def _add(p: argparse.ArgumentParser, output: str) -> None:
    p.add_argument(
        "traces",
        metavar="T|GRID.toml",
        nargs="+",
        help="trace files, or synth:NAME, LABEL= before either; or one TOML file with a grid (docs/reference/files.md)",
    )
    p.add_argument("-o", "--output", metavar=output, help="table to write (Parquet); an interrupted one is resumed")
    p.add_argument("--policy", metavar="P,P", help=f"policies (default: {POLICIES})")
    p.add_argument("--allocator", metavar="A,A", help="memories to replay in (default: arena)")
    p.add_argument("--torch", metavar="V,V", help=f"for cuda-caching: {OF_TORCH}")
    p.add_argument(
        "--alloc-conf",
        action="append",
        metavar="STRING",
        help="for cuda-caching: value of PYTORCH_CUDA_ALLOC_CONF; may be repeated (default: empty)",
    )
    p.add_argument("--steps", type=positives, metavar="N,N", help="training steps in one memory (default: 10)")
    p.add_argument(
        "--cost-model",
        metavar="C,C",
        help="cost of an op that policies assume: cost, bytes, flops, unit (default: cost)",
    )
    p.add_argument(
        "--random", metavar="R,R", help="what to do with results of random ops: recompute, keep (default: recompute)"
    )
    p.add_argument(
        "--seeds", type=positive, metavar="N", help="seeds of policies' chance: 0 to N - 1 (default: 1, 0 only)"
    )
    flags_shared.copies(p)
    flags_shared.overhead_limit(p, None)


def _add_where(p: argparse.ArgumentParser) -> None:
    p.add_argument("-j", "--jobs", type=positive, help="number of processes (default: one per core)")
    flags_shared.executor(p)
    p.add_argument("--json", action="store_true", help="print one JSON object")


@contextmanager
def table(args: argparse.Namespace) -> Iterator["Path"]:
    """Within the context, give the file for the table: --output, or else a temporary file.

    Raises CoopsimError if --output cannot be written.
    """
    from pathlib import Path
    from tempfile import TemporaryDirectory

    from coopsim.base import files

    if args.output is not None:
        files.target(args.output)
        yield Path(args.output)
        return
    with TemporaryDirectory() as folder:
        yield Path(folder) / "table.parquet"


def of(args: argparse.Namespace, keys: tuple[str, ...]) -> tuple["Grid", dict[str, Any]]:
    """Return the grid that flags and file stand for, and the values of keys that are not part of it.

    keys: the keys that a file may have. Raises CoopsimError for invalid values.
    """
    from coopsim.base import budget
    from coopsim.simulate import policies
    from coopsim.study.sweep import Grid
    from coopsim.study.sweep.options import NAMES

    values = _file(args.traces, keys)
    flags: dict[str, tuple[str, Callable[[Any], Any]]] = {
        "policies": ("policy", policies.split),
        "allocators": ("allocator", _words),
        "budgets": ("budget", budget.parse_list),
        "torch": ("torch", _words),
        "cost_model": ("cost_model", _words),
        "random": ("random", _words),
        "link": ("link", _words),
        "host_memory": ("host_memory", _words),
        "seed": ("seeds", range),
    }
    for key in keys:
        name, read = flags.get(key, (key, lambda value: value))
        if key != "traces" and getattr(args, name, None) is not None:
            values[key] = read(getattr(args, name))
    values.setdefault("policies", policies.split(POLICIES))
    if "budgets" in keys:
        values.setdefault("budgets", budget.parse_list(BUDGETS))
    options = {name: values.pop(name) for name in NAMES if name in values}
    other = {name: values.pop(name) for name in list(values) if name not in Grid.__dataclass_fields__}
    return Grid(**values, options=options), other


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",")]


def _file(traces: list[str], keys: tuple[str, ...]) -> dict[str, Any]:
    """Return the values in the TOML file of a grid, or the traces."""
    files = [name for name in traces if name.endswith(".toml")]
    if not files:
        return {"traces": traces}
    if len(traces) > 1:
        raise CoopsimError(f"{files[0]} says what to replay; give no other traces")
    from coopsim.study.sweep import grid_file

    values = grid_file.read(files[0], keys)
    if "traces" not in values:
        raise CoopsimError(f"{files[0]}: names no traces")
    return values


def workers(args: argparse.Namespace, grid: "Grid", points: int) -> "Workers | None":
    """Return the workers for `points` replays; None to run them in this process.

    With processes, the core is compiled first, so that they find its machine code.
    """
    import os

    from coopsim.simulate.kernel.jit import is_cold, note_if_cold
    from coopsim.simulate.replay import warm_up
    from coopsim.study.sweep import workers as known

    found = known.find(args.executor, min(args.jobs or os.cpu_count() or 1, points))
    if args.jobs and args.executor != "processes":
        raise CoopsimError("--jobs is for processes on this machine; a cluster has its own number of workers")
    if is_cold() and args.executor == "processes":
        note_if_cold()
        for allocator in grid.allocators:
            warm_up(allocator)
    return found
