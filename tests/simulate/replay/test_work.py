"""How much the core does, in exact counts: a guard against slowdowns that no clock can blur."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.scaling import nets
from coopsim.simulate.kernel import jit
from coopsim.simulate.replay import replay
from coopsim.trace import load, save
from coopsim.trace.measure import peak_bytes
from coopsim.trace.synth import rnn
from tests.conftest import ROOT

POLICIES = ["coop", "coop-oneflow", "dte-oneflow", "dtr-oneflow", "dtr-eq", "dtr"]


@pytest.mark.parametrize("policy", POLICIES)
def test_costs_are_kept(policy: str) -> None:
    """Between two searches few values change their cost; the others are not asked again."""
    trace = load(ROOT / "traces/bert-large.parquet")
    h = replay(trace, policy, peak_bytes(trace, 512) // 2, steps=2).header
    assert h["search_scores"] > 50_000
    assert h["costs_asked"] < 0.06 * h["search_scores"]


@pytest.mark.parametrize("policy", POLICIES)
def test_work_grows_with_what_is_resident_and_no_faster(policy: str) -> None:
    headers = []
    for resident in (200, 800):
        trace = nets(4 * resident, resident)
        headers.append(replay(trace, policy, peak_bytes(trace, 512) * 9 // 10, steps=1).header)
    for h in headers:
        searches = h["searches"] if policy.startswith("coop") else h["evictions"]  # one for each eviction
        looks = 2 if policy == "coop-oneflow" else 1  # its loop comes by twice: as a block enters and as it leaves
        assert h["search_visits"] <= looks * searches * h["max_blocks"]
    small, large = (h["costs_asked"] / h["ops_run"] for h in headers)
    assert large < 1.5 * small + 1


@pytest.mark.parametrize("policy", ["coop", "coop-oneflow", "dte-oneflow"])
def test_the_cost_is_added_up_once_for_all_that_an_op_makes(policy: str) -> None:
    """The backward of an RNN's loss makes a gradient of each output, and all of them cost the same to lose."""
    small, large = (rnn(n) for n in (100, 400))
    headers = [replay(trace, policy, peak_bytes(trace, 512) // 2, steps=1).header for trace in (small, large)]
    before, after = (h["costs_asked"] / h["ops_run"] for h in headers)
    assert after < 1.1 * before


@pytest.mark.slow
def test_only_what_python_calls_is_compiled_to_machine_code(tmp_path: Path) -> None:
    """Else each kernel would be once more in each that calls it: forty seconds for the first replay, not fifteen."""
    if jit.DISABLED:
        pytest.skip("nothing is compiled without JIT")
    program = "import sys; from coopsim.cli import main; sys.exit(main(sys.argv[1:]))"
    arguments = ["replay", str(ROOT / "traces/bert-large.parquet"), "--policy", "coop", "--budget", "50%", "--json"]
    own = os.environ | {"COOPSIM_CACHE_DIR": str(tmp_path)}  # the user's holds what other programs compiled before
    subprocess.run([sys.executable, "-c", program, *arguments], check=True, env=own, stdout=subprocess.DEVNULL)
    found = {f.name.split("-")[0] for f in tmp_path.rglob("*.o")}
    assert found == {"replay.loop.run"}


@pytest.mark.slow
def test_a_million_ops_take_less_than_two_gib(tmp_path: Path) -> None:
    save(nets(1_000_000, 1000), tmp_path / "t.parquet")
    program = (
        "import re, sys; from coopsim.cli import main; code = main(sys.argv[1:]);"  # ru_maxrss would count the parent's
        "print(*re.findall('VmHWM:.* ([0-9]+) kB', open('/proc/self/status').read()), file=sys.stderr); sys.exit(code)"
    )
    command = [sys.executable, "-c", program, "replay", str(tmp_path / "t.parquet"), "--policy", "coop"]
    run = subprocess.run(
        [*command, "--budget", "60%", "--steps", "1", "--json"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ,
    )
    assert json.loads(run.stdout)["outcome"] == "ok"
    assert int(run.stderr.split()[-1]) < 2 << 20  # KiB
