"""Schedules are executed as they say: against ordinary training on the CPU, bit by bit."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT

CPU_PYTHON = os.environ.get("COOPSIM_CPU_PYTHON")


@pytest.mark.skipif(not CPU_PYTHON, reason="COOPSIM_CPU_PYTHON names no Python with a CPU build of torch")
@pytest.mark.parametrize("model", ["convolutions", "attention"])
def test_executed_schedules_train_as_the_program_does(model: str) -> None:
    """Kernels of the core run as plain Python here: compiling them for another Python takes longer."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "NUMBA_DISABLE_JIT": "1"}
    script = Path(__file__).parent / "reference.py"
    done = subprocess.run([str(CPU_PYTHON), str(script), model], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    answer = json.loads(done.stdout.splitlines()[-1])
    assert answer.pop("recording_is_the_training")
    assert not answer.pop("with_new_random_numbers")  # the losses differ: the comparison can fail
    half, no_number, one_less = answer.pop("comparisons")
    storages = half["storages"]
    assert half["identical"] == no_number["identical"] == one_less["identical"] == one_less["found"] == storages - 1
    assert half["largest_relative"] == 0.5
    assert half["largest_difference"] > 0
    assert [found["not_numbers"] for found in (half, no_number, one_less)] == [0, 1, 0]
    assert set(answer) == {"foresight", "coop", "dtr-oneflow", "dte-oneflow", "lru"}
    for policy, found in answer.items():
        assert found["sound"], policy
        assert found["losses"], policy
        assert found["iterations"] == 3, policy
        assert found["last_step"]["identical"] == found["last_step"]["storages"] == storages, policy
        kept, equal = found["first_step"]
        assert kept == equal > 40, policy
        assert found["states_found"] == found["states"] == found["moved"] > 40, policy
        assert found["percent"] <= 60, policy
        assert found["recomputed"] > 50, policy
        assert found["random_recomputed"] > 4, policy
