"""The steps of action.yml, as the runner would start them, on a repository of three scripts."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from coopsim.run.gate.summary import bars
from tests.conftest import ROOT
from tests.run.gate.scripts import KEEPS, SCRIPT

SCRIPTS = ("train.py", "evaluate.py", "finetune.py")


def steps() -> dict[str, tuple[dict[str, str], str]]:
    """Variables and text of the steps that run a shell, by name."""
    found = {}
    for part in re.split(r"^    - ", (ROOT / "action.yml").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        if name := re.match(r"name: (.*)\n", part):
            text = part[part.index("run: |\n") + len("run: |\n") :]
            found[name[1]] = dict(re.findall(r"^        (\w+): \$\{\{ (.*?) \}\}$", part, re.MULTILINE)), text
    return found


def inputs() -> dict[str, str]:
    """Inputs that have a default, and it."""
    text = (ROOT / "action.yml").read_text(encoding="utf-8").partition("runs:")[0]
    return dict(re.findall(r'^  ([\w-]+):\n    description: .*\n    default: "?(.*?)"?$', text, re.MULTILINE))


def run(name: str, repository: Path, temp: Path, **given: str) -> subprocess.CompletedProcess[str]:
    """Run a step in the repository, with these inputs (`max_memory` is `max-memory`)."""
    variables, text = steps()[name]
    values = {f"inputs.{key}": value for key, value in inputs().items()}
    values |= {f"inputs.{key.replace('_', '-')}": value for key, value in given.items()}
    values["github.action_path"] = str(ROOT)
    env = os.environ | {key: values[of] for key, of in variables.items()}
    env |= {"RUNNER_TEMP": str(temp), "GITHUB_STEP_SUMMARY": str(temp / "summary.md")}
    env.pop("PYTHONPATH", None)
    return subprocess.run(["bash", "-e", "-c", text], cwd=repository, env=env, capture_output=True, text=True)


def test_every_expression_has_a_value() -> None:
    """A step's text has no expression, which a command in an input could break out of; variables have inputs."""
    known = {f"inputs.{key}" for key in inputs()} | {"inputs.command", "github.action_path"}
    assert set(steps()) == {"Install", "Gate"}
    for variables, text in steps().values():
        assert "${{" not in text
        assert set(variables.values()) <= known


def test_bars() -> None:
    was = {"parameters": 10 << 20, "activations": 32 << 20, "gradients": 1 << 20}
    now = {"parameters": 10 << 20, "activations": 64 << 20}
    assert bars(now, was) == [
        f"activations  {'█' * 20}{'▓' * 20} 64 MiB (+32 MiB)",
        f"parameters   {'█' * 6} 10 MiB",
        "gradients    ░ 0 B (-1 MiB)",
    ]
    assert bars({"a": 4}, {}) == [f"a  {'█' * 40} 4 B"]


@pytest.mark.slow
def test_its_steps_one_by_one(tmp_path: Path) -> None:
    """Install (from the registry), and the gate: passes, fails when a line keeps activations, passes when updated."""
    repository, temp = tmp_path / "repository", tmp_path / "temp"
    repository.mkdir()
    temp.mkdir()
    for name in SCRIPTS:
        (repository / name).write_text(SCRIPT)
    installed = run("Install", repository, temp)
    assert installed.returncode == 0, installed.stderr
    coopsim = temp / "coopsim" / "bin" / "coopsim"
    was = coopsim.stat().st_mtime_ns
    assert run("Install", repository, temp).returncode == 0
    assert coopsim.stat().st_mtime_ns == was  # nothing is installed again
    for name in SCRIPTS:
        command = [coopsim, "phantom", "run", "--gpu", "rtx-3060", "--baseline", "peaks.json", "--update", "--"]
        env = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        assert subprocess.run([*command, "python", name], cwd=repository, env=env, check=False).returncode == 0
    for name in SCRIPTS:
        gate = run("Gate", repository, temp, command=f"python {name}", baseline="peaks.json", max_memory="2GiB")
        assert gate.returncode == 0, gate.stdout + gate.stderr

    grown = repository / "evaluate.py"
    grown.write_text(SCRIPT.replace("    y = model(x)\n", f"    y = model(x)\n{KEEPS}"))
    gate = run("Gate", repository, temp, command="python evaluate.py", baseline="peaks.json")
    assert gate.returncode == 1
    assert "evaluate.py:9: kept.append(y.detach().relu())" in gate.stdout
    page = (temp / "summary.md").read_text(encoding="utf-8")
    assert (page.count("### ✅"), page.count("### ❌")) == (3, 1)
    assert "▓" in page
    assert "| allocated |" in page
    assert run("Gate", repository, temp, command="python train.py", baseline="peaks.json").returncode == 0


@pytest.mark.slow
@pytest.mark.usefixtures("phantom_gpu")
def test_a_hundred_runs_give_the_same_bytes(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    found = set()
    for _ in range(int(os.environ.get("COOPSIM_GATE_RUNS", "100"))):
        baseline = tmp_path / "peaks.json"
        baseline.unlink(missing_ok=True)
        command = ["coopsim", "phantom", "run", "--gpu", "rtx-3060", "--baseline", "peaks.json", "--update"]
        subprocess.run(
            [sys.executable, "-m", *command, "--", "train.py"], cwd=tmp_path, check=True, capture_output=True
        )
        found.add(baseline.read_bytes())
    assert len(found) == 1
