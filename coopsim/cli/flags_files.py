"""The flags of the verbs that read, convert, draw or validate files."""

import argparse

from coopsim.base.types import NEWEST_TORCH
from coopsim.cli import flags_shared
from coopsim.cli.flags_shared import OF_TORCH, natural, positive


def import_(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "format", choices=("torch-snapshot",), help="torch-snapshot: written by torch.cuda.memory._dump_snapshot"
    )
    p.add_argument("log", metavar="F", help="file to read")
    p.add_argument("--device", type=natural, metavar="N", help="device to read, if the snapshot has several")
    p.add_argument("-o", "--output", metavar="T", required=True, help="trace file to write")


def advise(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "file", metavar="F", help="a memory snapshot (written by torch.cuda.memory._dump_snapshot), or a trace"
    )
    memory = p.add_mutually_exclusive_group()
    memory.add_argument(
        "--memory",
        metavar="B",
        help="what PyTorch may reserve: 80GiB, 24GB (default: what it had, for a snapshot of a program that ran out)",
    )
    flags_shared.gpu(memory, "take the memory of this card", ", less its context")
    p.add_argument(
        "--torch",
        metavar="V",
        help="version of PyTorch (default: the one that agrees with the snapshot's history; or the trace's)",
    )
    p.add_argument("--alloc-conf", metavar="STRING", help="value of PYTORCH_CUDA_ALLOC_CONF (default: as recorded)")
    p.add_argument("--device", type=natural, metavar="N", help="device to read, if the snapshot has several")
    p.add_argument("-o", "--output", metavar="DIR|FILE", help="draw the memory at the failure into this folder or file")
    p.add_argument(
        "--all", action="store_true", help="show every setting that was tried, and the size from which each policy fits"
    )
    p.add_argument("--json", action="store_true", help="print one JSON object")


def info(p: argparse.ArgumentParser) -> None:
    p.add_argument("trace", metavar="T", help="trace file, name of `coopsim list traces`, or synth:NAME")
    p.add_argument("--json", action="store_true", help="print JSON")


def plan(p: argparse.ArgumentParser) -> None:
    p.add_argument("file", metavar="F.csv|T", help="a CSV (id,lower,upper,size), a trace file, or synth:NAME")
    p.add_argument("-o", "--output", metavar="OUT.csv", help="CSV to write: the same rows with their offsets")
    p.add_argument("--json", action="store_true", help="print one JSON object")


def plot(p: argparse.ArgumentParser) -> None:
    p.add_argument("file", metavar="S|R|M|T", nargs="+", help="schedules, the table of a sweep or of a map, or traces")
    p.add_argument(
        "-o", "--output", metavar="DIR", default=".", help="folder for the figures (default: the current one)"
    )
    p.add_argument(
        "--format", default="png", metavar="F,F", help="formats of the figures: png, pdf, svg (default: png)"
    )
    p.add_argument(
        "--search-time", action="store_true", help="for sweeps: also draw the wall time of the search, which is noisy"
    )
    p.add_argument(
        "--timeline", action="store_true", help="for schedules: draw where the steps' time goes, instead of memory maps"
    )
    p.add_argument("--policies", metavar="P,P", help="policies to draw, in this order (default: all)")
    p.add_argument(
        "--labels",
        action="append",
        metavar="P=LABEL,…",
        help="what to call policies; one with choices (coop:placement=low=Low) in a --labels of its own",
    )
    p.add_argument(
        "--size",
        default="column",
        metavar="S",
        help="column, page, slide, or width and height in inches, such as 6.8x2.2 (default: column)",
    )
    p.add_argument("--data", metavar="F.csv", help="also write what is drawn as a table")
    flags_shared.timeline_params(p)
    flags_shared.trace_of_schedule(p)


def export(p: argparse.ArgumentParser) -> None:
    p.add_argument("schedule", metavar="S", help="schedule file")
    what = p.add_mutually_exclusive_group(required=True)
    what.add_argument("--torch-snapshot", metavar="F", help="memory snapshot to write, for PyTorch's memory_viz")
    what.add_argument("--perfetto", metavar="F", help="timeline to write, for Perfetto (JSON; F.gz: compressed)")
    flags_shared.timeline_params(p)
    flags_shared.trace_of_schedule(p)


def validate(p: argparse.ArgumentParser) -> None:
    p.add_argument("schedule", metavar="S", help="schedule file")
    flags_shared.trace_of_schedule(p)
    p.add_argument(
        "--against",
        metavar="torch==V|cuda|A",
        help="also perform it on the real caching allocator: of that PyTorch, without a GPU (downloaded with pip if it "
        "is not installed), of the installed one, on this machine's GPU, or of a GPU whose answers are in file A",
    )
    p.add_argument(
        "--alloc-conf",
        metavar="STRING",
        help="PYTORCH_CUDA_ALLOC_CONF of the real allocator, for a schedule made in an arena",
    )
    p.add_argument("--json", action="store_true", help="print JSON")


def requests(p: argparse.ArgumentParser) -> None:
    p.add_argument("trace", metavar="T", help="trace file, name of `coopsim list traces`, or synth:NAME")
    p.add_argument("--torch", default=NEWEST_TORCH, metavar="V", help=OF_TORCH)
    flags_shared.driver(p)
    p.add_argument(
        "--alloc-conf",
        action="append",
        metavar="STRING",
        help="also compare PyTorch's allocator with this PYTORCH_CUDA_ALLOC_CONF; may be repeated",
    )
    p.add_argument("--steps", type=positive, metavar="N", help="steps to serve (default: as recorded)")
    p.add_argument(
        "--against",
        metavar="torch==V",
        help="also ask the real caching allocator of that PyTorch, without a GPU (downloaded with pip if it is not "
        "installed), for the smallest card that serves them; exit code 1 where it does otherwise",
    )
    p.add_argument("--json", action="store_true", help="print one JSON object")


def list_(p: argparse.ArgumentParser) -> None:
    p.add_argument(
        "what",
        nargs="?",
        choices=("policies", "traces", "allocators", "models", "hardware", "links"),
        metavar="KIND",
        help="policies, traces, allocators, models, hardware or links (default: all)",
    )
    p.add_argument("--choices", action="store_true", help="for policies: show the choices that each consists of")
    p.add_argument("--json", action="store_true", help="print JSON")


def setup_torch(p: argparse.ArgumentParser) -> None:
    p.add_argument("version", nargs="?", help="of torch (default: the one that coopsim is tested with)")
