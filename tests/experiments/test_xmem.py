"""The comparison with measured peaks: reading records, figures by hand, one record run twice, bad input."""

import importlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.conftest import ROOT

MIB = 2**20
NAMES = ("models", "records", "report", "runs", "compare")
PEAKS = """model,optimizer,batch,gpu,ground_bytes,real_oom,pred_other
VGG16,SGD,4,NVIDIA-GeForce-RTX-4060,1048576000,0,524288000
facebook/opt-125m,AdamW,2,NVIDIA-A100-SXM4-40GB,2097152000,0,
"""
RUN = {"model": "VGG16", "opt": "SGD", "batch": 4, "ground": 1000 * MIB}
CAPPED = [
    RUN | {"gpu": "4060", "limit_mib": 900, "real_oom": False},
    RUN | {"gpu": "A100", "limit_mib": 500, "real_oom": True},
]
Write = Callable[[str, str], Path]


@pytest.fixture
def xmem(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """Modules of experiments/xmem."""
    monkeypatch.syspath_prepend(str(ROOT / "experiments" / "xmem"))
    yield SimpleNamespace(**{name: importlib.import_module(name) for name in NAMES})
    for name in NAMES:
        sys.modules.pop(name, None)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(name: str, text: str) -> Path:
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def test_records(xmem, write: Write) -> None:
    peaks = xmem.records.peaks(write("peaks.csv", PEAKS))
    assert [(r.card, r.measured_bytes, r.predictions) for r in peaks] == [
        ("rtx-4060", 1000 * MIB, {"other": 500 * MIB}),
        ("a100-40gb", 2000 * MIB, {}),
    ]
    capped = xmem.records.capped(write("capped.json", json.dumps(CAPPED)), {r.card for r in peaks})
    assert [(r.card, r.limit_mib, r.out_of_memory) for r in capped] == [
        ("rtx-4060", 900.0, False),
        ("a100-40gb", 500.0, True),
    ]
    assert capped[0].command[-2:] == ["--memory-limit", "900.0"]


def test_report_by_hand(xmem, write: Write) -> None:
    """Reserved 1010 of 1000 MiB is 1 %, 1900 of 2000 is -5 %; a cap of 900 is near the peak, one of 500 is not."""
    peaks = xmem.records.peaks(write("peaks.csv", PEAKS))
    results = [
        {"outcome": "ok", "peak_reserved_bytes": r * MIB, "peak_allocated_bytes": r * MIB // 2} for r in (1010, 1900)
    ]
    pairs = list(zip(peaks, results, strict=True))
    assert [row["error %"] for row in xmem.report.peak_rows(pairs)] == [1.0, -5.0]
    found = {(e.of, e.records): e.row() for e in xmem.report.errors(pairs)}
    both = found[xmem.report.PHANTOM, "all"]
    assert (both["n"], both["median %"], both["mean %"], both["max %"]) == (2, 3.0, 3.0, 5.0)
    assert (both["within 1 %"], both["within 5 %"]) == (1, 2)
    assert found[xmem.report.PHANTOM, "transformers"]["median %"] == 5.0
    assert found["other", "CNNs"]["mean %"] == 50.0
    capped = xmem.records.capped(write("capped.json", json.dumps(CAPPED)), {r.card for r in peaks})
    rows = xmem.report.cap_rows([(capped[0], {"outcome": "ok"}), (capped[1], {"outcome": "ok"})])
    assert [row["right"] for row in rows] == [True, False]
    assert xmem.report.judged(rows) == {"capped runs": 2, "right": 1, "near the peak": 1, "right near the peak": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model\n", "has no records"),
        (PEAKS.replace("batch", "size"), "record 2: no batch"),
        (PEAKS.replace(",4,", ",many,"), "record 2: invalid literal"),
        (PEAKS.replace("RTX-4060", "RTX-1"), "no card for 'NVIDIA-GeForce-RTX-1'"),
        (PEAKS.replace("VGG16", "VGG17"), "unknown model 'VGG17'"),
    ],
)
def test_bad_records(xmem, write: Write, monkeypatch, capsys, text: str, message: str) -> None:
    monkeypatch.setattr(sys, "argv", ["compare.py", "--peaks", str(write("peaks.csv", text))])
    assert xmem.compare.main() == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.slow
def test_one_record(xmem, write: Write, monkeypatch, capsys, tmp_path: Path, phantom_gpu: None) -> None:
    """A model of one's own, run once: the second start reads the journal."""
    config = {"model_type": "gpt2", "n_layer": 1, "n_embd": 64, "n_head": 2, "vocab_size": 30000}
    write("config.json", json.dumps(config))
    row = f"{tmp_path},SGD,2,4060,1048576000,0,\n"
    peaks = write("peaks.csv", PEAKS.splitlines()[0] + "\n" + row)
    arguments = ["compare.py", "--peaks", str(peaks), "--journal", str(tmp_path / "journal.jsonl"), "--json"]
    monkeypatch.setattr(sys, "argv", arguments)
    assert xmem.compare.main() == 0
    first = json.loads(capsys.readouterr().out)
    assert 0 < first["peaks"][0]["allocated"] <= first["peaks"][0]["reserved"]
    monkeypatch.setattr(xmem.runs, "measure", lambda *_: pytest.fail("run again"))
    assert xmem.compare.main() == 0
    assert json.loads(capsys.readouterr().out) == first


@pytest.mark.slow
def test_published_parameter_counts(on_phantom) -> None:
    """Of all transformers; the CNNs where torchvision is there."""
    text = f"""
sys.path.insert(0, {str(ROOT / "experiments" / "xmem")!r})
import importlib.util
import models, train
wrong = {{}}
for name, model in models.MODELS.items():
    if model.kind == models.IMAGES and importlib.util.find_spec("torchvision") is None:
        continue
    with train.NoRandomInit():
        found = sum(p.numel() for p in model.build().parameters())
    if found != model.parameters:
        wrong[name] = found
answer(wrong)
"""
    assert on_phantom(text) == {}
