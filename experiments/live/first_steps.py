"""Scripts of the corpus in budgets that plans fit: do they survive the steps before there is a plan, and end steady?

    python experiments/live/first_steps.py [NAME...]     # writes experiments/expected/live/first_steps.csv
    python experiments/live/first_steps.py table

Each script, larger and longer as first_steps.toml says, is recorded on the phantom GPU, and then runs as `coopsim live
run --gpu h100-80gb --memory B --no-cache` runs it. B is the least of SHARES of its peak in which all of its step
signatures have plans that leave 1/SPARE of it. A row has the peak of reserved bytes ÷ B of the steps before the first
by plan, and from then on; the driver's calls for memory, and retries, after the step that followed the last replanning
(`calls`, `retries`), and in the last five steps by plan that follow another (`calls_last`); or why the script failed.
Where these steps call the driver, or none goes by plan, the script is started again, as `live run` without `--no-cache`
does it: in an arena, or by the plans that were kept (`next`); `next_calls` is as `calls_last`, and `next_later` as from
the first plan on. A script that has a row and reads the same is not run again, unless it is named. Processes are forks
of one that has imported torch and transformers, and are ended after SECONDS of processor time.
"""

import csv
import gc
import hashlib
import json
import os
import re
import resource
import runpy
import subprocess
import sys
import tempfile
import tomllib
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
sys.path += [str(ROOT), str(ROOT / "experiments" / "corpus")]

import run as corpus  # noqa: E402

from coopsim import phantom  # noqa: E402
from coopsim.base import files  # noqa: E402
from coopsim.live import make, plan_file  # noqa: E402
from coopsim.trace.measure import peak_bytes  # noqa: E402
from experiments.common.pages import write_section  # noqa: E402

OUT = ROOT / "experiments" / "expected" / "live" / "first_steps.csv"
CARD, SETTINGS, SECONDS = "h100-80gb", "expandable_segments:True", 240
SHARES = 50, 60, 70, 80, 90  #: of the plain peak of allocated bytes
SPARE = 16  #: a plan fits if it leaves the budget divided by this, as the allocator fragments
MIB, MOST, STEPS = 1 << 20, 1.02, 24
COLUMNS = (
    *("script", "share", "peak_bytes", "budget_bytes", "steps", "planned_steps", "first", "later", "replans"),
    *("last_replan", "calls", "retries", "calls_last", "predicted_overhead", "unplanned"),
    *(
        "deviations",
        "deviated",
        "why",
        "next",
        "next_planned",
        "next_calls",
        "next_later",
        "next_overhead",
        "next_why",
        "digest",
    ),
)
REPORTED = ("steps", "planned_steps", "replans", "predicted_overhead", "unplanned", "deviations", "deviated")
_LOOP = re.compile(r"^for (\w+) in range\([2-6]\):", re.MULTILINE)
_NO_CALLS = "call the driver no more in the last five steps by plan that follow another"
Row = dict[str, Any]


def cases() -> dict[str, dict[str, str]]:
    """What to replace in each script."""
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))


def text(script: corpus.Script, replaced: dict[str, str]) -> str:
    """The script as it is run. ValueError if something to replace is not there."""
    found = script.file.read_text(encoding="utf-8")
    for old, new in replaced.items():
        if old not in found:
            raise ValueError(f"{script.name}: no {old}")
        found = found.replace(old, new)
    return _LOOP.sub(rf"for \1 in range({STEPS}):", found)


# -- in the process that has imported torch ----------------------------------------------------------------------------


def serve() -> None:
    """Run what stdin says, one JSON list of a file, its arguments and a budget per line, and print what it took."""
    import torch

    is_available = torch.cuda.is_available
    torch.cuda.is_available = lambda: True  # type: ignore[method-assign]  # asking starts CUDA, which no fork could use
    from transformers import Trainer  # noqa: F401

    import coopsim.live.guest  # noqa: F401

    torch.cuda.is_available = is_available  # type: ignore[method-assign]
    gc.collect()
    gc.freeze()  # forks look through their own objects only
    out = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        with tempfile.TemporaryDirectory(prefix="first-steps-") as folder:
            child = os.fork()
            if child == 0:
                try:
                    inside(*json.loads(line), folder)
                except BaseException:
                    Path(folder, "fault").write_text(traceback.format_exc(), encoding="utf-8")
                finally:
                    os._exit(0)
            _, status = os.waitpid(child, 0)
            report, said, fault = (Path(folder, name) for name in ("report", "said", "fault"))
            if fault.exists():  # of this file, and no figure of the script's
                print(json.dumps({"fault": fault.read_text(encoding="utf-8")}), file=out, flush=True)
                continue
            last = [line for line in said.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
            ended = {"why": f"ended by {os.waitstatus_to_exitcode(status)}: {''.join(last[-1:])}"}
            print(report.read_text(encoding="utf-8") if report.exists() else json.dumps(ended), file=out, flush=True)


def inside(file: str, arguments: list[str], told: Row, folder: str) -> None:
    """In a fork: run a script as Python does, as live is told, and leave its figures in the folder."""
    import torch

    from coopsim.live.session import TrainingSession
    from coopsim.run.launch import inside as process_of
    from coopsim.run.task import Task

    said = os.open(f"{folder}/said", os.O_WRONLY | os.O_CREAT)
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))
    os.dup2(said, 1)
    os.dup2(said, 2)
    sys.argv, sys.path[0] = [file, *arguments], str(Path(file).parent)
    os.chdir(folder)
    torch.cuda._is_in_bad_fork = lambda: False  # the stand-in driver has no context yet
    each: list[list[int]] = []
    end = TrainingSession.end

    def ending(session: TrainingSession, error: BaseException | None = None) -> None:
        step = session._running
        try:
            end(session, error)
        finally:
            stats = torch.cuda.memory_stats()  # but for peaks, which recorded steps reset at each op
            calls = stats["num_device_alloc"] + stats["num_device_free"]
            peaks = step.peaks() if step is not None and step.entered else (0, 0)
            made = session.totals.planned_steps, session.planning.replans
            each.append([*peaks, calls, stats["num_alloc_retries"], *made])

    TrainingSession.end = ending  # type: ignore[method-assign]
    task = Task(CARD, explains=False, plugin="coopsim.live.guest", told=json.dumps(told))
    os.environ.update(task.variables(folder))
    process = process_of._Process(task, folder)
    process.begin(torch)
    os.register_at_fork(after_in_child=process.forget)
    why = ""
    try:
        runpy.run_path(file, run_name="__main__")
    except SystemExit:
        pass
    except BaseException as error:
        traceback.print_exc()
        why = f"{type(error).__name__}: {error}".splitlines()[0]
    found: Row = {"each": each, "why": why}
    if process._plugin is not None:
        said_by = process._plugin.end()
        found |= {key: said_by[key] for key in REPORTED}
        found["why"] = said_by["failed"] or why
    Path(folder, "report").write_text(json.dumps(found), encoding="utf-8")


# -- in the parent -----------------------------------------------------------------------------------------------------


class Server:
    """A process that has imported torch."""

    def __init__(self) -> None:
        environment = os.environ | phantom.environment(CARD) | phantom.compiler_caches() | corpus._QUIET
        environment |= {"PYTHONPATH": str(ROOT), "PYTORCH_CUDA_ALLOC_CONF": SETTINGS}
        command = [sys.executable, __file__, "serve"]
        self._child = subprocess.Popen(  # noqa: S603
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ran(self, file: Path, arguments: tuple[str, ...], told: Row) -> Row:
        """What a run took. RuntimeError if it is not the script that failed, but this file."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        print(json.dumps([str(file), list(arguments), told]), file=self._child.stdin, flush=True)
        found: Row = json.loads(self._child.stdout.readline())
        if "fault" in found:
            raise RuntimeError(found["fault"])
        return found


def measured(server: Server, file: Path, arguments: tuple[str, ...]) -> Row:
    """In the least share in which all signatures of step have plans, with SPARE left."""
    with tempfile.TemporaryDirectory(prefix="first-steps-") as folder:
        recorded = Path(folder, "recorded")
        found = server.ran(file, arguments, {"save": str(recorded)})
        if found["why"] or not recorded.exists():
            return {"why": f"recorded: {found['why']}"}
        steps = plan_file.load(recorded)
    peak = max(peak_bytes(signature.trace, 512) for signature in steps.signatures) + steps.others_bytes
    for share in SHARES:
        memory = peak * share // 100 // MIB * MIB
        row: Row = {"share": share, "peak_bytes": peak, "budget_bytes": memory}
        made = [
            make.make(one, steps.policy, memory - memory // SPARE, steps.others_bytes, search=False)
            for one in steps.signatures
        ]
        if all(one.signature.state.schedule is not None for one in made):
            return row | started(server, file, arguments, memory)
    return row | {"why": f"no plan: {next(m.signature.state.why for m in made if m.signature.state.schedule is None)}"}


def started(server: Server, file: Path, arguments: tuple[str, ...], memory: int) -> Row:
    """In this budget, and once more if no step goes by plan, or steps by plan call the driver to the end."""
    with tempfile.TemporaryDirectory(prefix="first-steps-") as folder:
        kept = Path(folder, "kept")
        told: Row = {"memory": f"{memory // MIB}MiB", "plan": str(kept), "own": True}
        row = figures(server.ran(file, arguments, told), memory)
        if row["why"] or not kept.exists() or (row["planned_steps"] and not row["calls_last"]):
            return row
        steady = plan_file.load(kept).steady
        then = figures(server.ran(file, arguments, told if steady else told | {"arena_bytes": memory}), memory)
    if not then.get("planned_steps"):
        then["calls_last"] = None  # no step shows it
    row["next_planned"] = then.get("planned_steps")
    keys = {"calls_last": "calls", "later": "later", "predicted_overhead": "overhead", "why": "why"}
    return row | {"next": "plans" if steady else "arena"} | {f"next_{keys[k]}": then.get(k) for k in keys}


def figures(found: Row, memory: int) -> Row:
    """Of what a run took."""
    each = found.pop("each", [])
    row = {key: found.get(key) for key in COLUMNS if key in found} | {"planned_steps": found.get("planned_steps", 0)}
    if not each:
        return row
    by_plan = next((i for i, step in enumerate(each) if step[4]), len(each))
    row["first"] = round(max((step[1] for step in each[:by_plan]), default=0) / memory, 4)
    row["later"] = round(max((step[1] for step in each[by_plan:]), default=0) / memory, 4)
    last = max((i for i in range(1, len(each)) if each[i][5] > each[i - 1][5]), default=by_plan)
    last = min(last + 1, len(each) - 1)  # the step after it takes what the new plan needs
    row |= {"last_replan": last, "calls": each[-1][2] - each[last][2], "retries": each[-1][3] - each[last][3]}
    follow = [i for i in range(2, len(each)) if each[i][4] == each[i - 1][4] + 1 == each[i - 2][4] + 2]
    return row | {"calls_last": sum(each[i][2] - each[i - 1][2] for i in follow[-5:])}


def rows(names: list[str]) -> Iterator[Row]:
    """A row of each script that has none, or is named."""
    known = {(row["script"], row["digest"]) for row in read()}
    server: Server | None = None
    scripts = {script.name: script for script in corpus.corpus() if not script.missing}
    with tempfile.TemporaryDirectory(prefix="first-steps-") as folder:
        for name, replaced in cases().items():
            script = scripts[name]
            file = Path(folder, script.file.name)
            file.write_text(text(script, replaced), encoding="utf-8")
            digest = hashlib.sha256(file.read_bytes()).hexdigest()[:12]
            if (names and name not in names) or (not names and (name, digest) in known):
                continue
            server = server or Server()
            yield {"script": name, "digest": digest} | measured(server, file, script.arguments)


def read() -> list[dict[str, str]]:
    """The rows that there are."""
    return list(csv.DictReader(OUT.read_text(encoding="utf-8").splitlines() if OUT.exists() else []))


def table(rows: list[dict[str, str]]) -> str:
    """For the page: how many scripts did what is wanted, and which did not."""
    planned = [row for row in rows if row["budget_bytes"] and not row["why"].startswith("no plan")]
    good = [row for row in planned if not row["why"]]
    by_plan = [row for row in good if row["planned_steps"] != "0"]
    without = [row for row in good if row["planned_steps"] == "0"]
    unsteady = [row for row in by_plan if row["calls_last"] != "0"]
    lines = ["| of the scripts | that | do | but not |", "| --- | --- | --- | --- |"]
    for of, among, that, does in (
        ("with plans", planned, "run to their end", lambda row: not row["why"]),
        ("that do", good, f"reserve at most {MOST} of the budget before the first step by plan", _kept("first")),
        ("that do", good, "go by plan", lambda row: row["planned_steps"] != "0"),
        ("that do not", without, "do so at the next start", lambda row: int(row["next_planned"] or 0) > STEPS // 2),
        ("that go by plan", by_plan, f"reserve at most {MOST} of the budget from then on", _kept("later")),
        ("that go by plan", by_plan, _NO_CALLS, lambda row: row["calls_last"] == "0"),
        ("that still do", unsteady, "do so no more at the next start", lambda row: row["next_calls"] == "0"),
    ):
        rest = ", ".join(f"`{row['script']}`" for row in among if not does(row))
        lines.append(f"| {len(among)} {of} | {that} | {sum(map(does, among))} | {rest} |")
    return "\n".join(lines)


def _kept(which: str) -> Callable[[dict[str, str]], bool]:
    return lambda row: float(row[which]) <= MOST


def main(names: list[str]) -> None:
    """Write each row as it is found, and put the table into its page."""
    for row in rows(names):
        print(*(f"{key}={row[key]}" for key in COLUMNS if row.get(key) not in (None, "")), flush=True)
        new = {key: "" if row.get(key) is None else str(row[key]) for key in COLUMNS}
        known = [r for r in read() if r["script"] != new["script"]]
        with files.replacing(OUT) as part, part.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(sorted([*known, new], key=lambda r: r["script"]))
    write_section("first steps", table(read()))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["serve"]:
            serve()
        case ["table"]:
            write_section("first steps", table(read()))
        case names:
            main(names)
