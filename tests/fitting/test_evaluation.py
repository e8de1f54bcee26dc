"""What helps an evaluation that keeps its outputs."""

from pathlib import Path

import pytest

from coopsim.fitting import rows
from coopsim.fitting.remedies import evaluation
from tests.fitting.made import found, too_large

pytestmark = [pytest.mark.usefixtures("phantom_gpu"), pytest.mark.slow]


def test_outputs_and_labels_go_to_the_host(tmp_path: Path) -> None:
    """Either alone fails: they are compared."""
    case = too_large(1300, tmp_path, "evaluates.py")
    assert evaluation.is_the_cause(case)
    [done] = found(case, evaluation.propose)
    assert done.lines == ("outputs.append(model(x).cpu())", "labels.append(x[:, 0].clone().cpu())")
    assert not done.stand_in
    [note] = rows.of_evaluation(case.survey.report, case.trials.script.total_bytes)
    assert note.startswith("evaluation grows by 32 MiB per batch, and the card is full by batch ")


def test_nothing_is_moved_to_a_host_with_too_little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = too_large(1300, tmp_path, "evaluates.py")
    monkeypatch.setattr(evaluation.host_limit, "free", lambda: (1 << 30, 8 << 30))
    assert found(case, evaluation.propose) == []
    [both, outputs] = case.trials.notes[-2:]  # labels alone would go there, and do not suffice
    assert "was not tried: it keeps 1.281 GiB in the host's memory; 1 GiB are free" in both
    assert "outputs.append(model(x).cpu()) was not tried: it keeps 1.281 GiB in the host's memory" in outputs
