"""Run jobs of the usual kinds at real size, each by its launcher, and write down what ranks take and what that costs.

    python experiments/ranks/jobs.py -o experiments/expected/rank_jobs.csv [JOB ...]

Of jobs that are not named, the rows that are in the file stay. `processor_s` and `host_bytes` hang on the machine: the
time is that of the command and all its processes, the memory is the largest one's.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
CARD = "h100-80gb"
ONE_MACHINE = ("torchrun", "--nproc-per-node", "8")
EIGHT_MACHINES = (*ONE_MACHINE, "--nnodes", "8")
ACCELERATE = (
    "accelerate", "launch", "--multi_gpu", "--num_processes", "16", "--num_machines", "2", "--machine_rank", "0",
    "--main_process_ip", "10.0.0.1", "--main_process_port", "29500", "--mixed_precision", "bf16",
)  # fmt: skip
JOBS = {
    "DDP": (*EIGHT_MACHINES, "resnet.py"),
    "FSDP2": (*EIGHT_MACHINES, "train.py", "llama-8b"),
    "TP x FSDP2": (*EIGHT_MACHINES, "train.py", "llama-8b", "--tensor", "8"),
    "pipeline": ("torchrun", "--nproc-per-node", "4", "pipeline.py", "llama-8b"),
    "Trainer, FSDP2": (*ONE_MACHINE, "trainer.py", "llama-1b"),
    "accelerate launch": (*ACCELERATE, "accelerated.py"),
}
PEAKS = ("peak_requested_bytes", "peak_allocated_bytes", "peak_reserved_bytes", "peak_device_bytes")
COLUMNS = ("job", "command", "world_size", "rank", "outcome", "steps", *PEAKS, "processor_s", "host_bytes")


def rows(job: str) -> list[dict[str, object]]:
    """A row of each rank that was run. Raises CalledProcessError if the job does not run."""
    command = [sys.executable, "-m", "coopsim", "phantom", "run", "--json", "--gpu", CARD, "--", *JOBS[job]]
    started = subprocess.Popen(command, cwd=HERE, stdout=subprocess.PIPE, text=True)  # noqa: S603
    assert started.stdout is not None
    said = started.stdout.read()
    _, status, used = os.wait4(started.pid, 0)
    started.returncode = os.waitstatus_to_exitcode(status)
    if started.returncode:
        raise subprocess.CalledProcessError(started.returncode, command)
    report = json.loads(said)
    cost = {"processor_s": round(used.ru_utime + used.ru_stime), "host_bytes": used.ru_maxrss << 10}
    told = {"job": job, "command": " ".join(JOBS[job]), "world_size": report["world_size"], **cost}
    keys = ("rank", "outcome", "steps", *PEAKS)
    return [told | {key: one[key] for key in keys} for one in report["ranks"]]


def main() -> None:
    """The jobs that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", nargs="*", metavar="JOB", help=", ".join(JOBS))
    parser.add_argument("-o", "--output", type=Path, required=True)
    args = parser.parse_args()
    if strange := set(args.jobs) - set(JOBS):
        parser.error(f"no job {', '.join(sorted(strange))}; there are {', '.join(JOBS)}")
    table: dict[str, list[dict[str, object]]] = {job: [] for job in JOBS}
    if args.output.exists():
        with args.output.open(newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                table.setdefault(row["job"], []).append(dict(row))
    for job in args.jobs or JOBS:
        table[job] = rows(job)
        print(*(row.values() for row in table[job]), sep="\n", file=sys.stderr, flush=True)
        part = args.output.with_name(f".{args.output.name}.part")
        with part.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            for job_rows in table.values():
                writer.writerows(job_rows)
        part.replace(args.output)


main()
