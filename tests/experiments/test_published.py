"""experiments/published: tables of readings, batches and snapshots become errors, a table and a figure."""

import gzip
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from coopsim.base.types import CoopsimError
from tests.conftest import ROOT
from tests.trace.snapshot.history import History

CARD = 24259 << 20


@pytest.fixture
def published(
    script: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., ModuleType]]:
    """Imports a script of the folder, which imports its own and those of experiments/."""
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(ROOT / "experiments" / "published"))
    yield script
    for name in set(sys.modules) - before:
        if "experiments" in (getattr(sys.modules[name], "__file__", None) or ""):
            del sys.modules[name]


def _write(folder: Path, name: str, *lines: str) -> None:
    (folder / name).write_text("\n".join(lines) + "\n")


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """A reading or two of each kind."""
    _write(
        tmp_path,
        "attention_wedsonlin.csv",
        "suite,d_model,seq_len,reading,measured_mib,phantom_mib_torch_2.14.1",
        "a,16,256,m,68.773,68.773",
        "a,32,256,m,69.500,69.5004",
    )
    _write(
        tmp_path,
        "transformer_2.7b_damek.csv",
        "context_length,mode,autocast_bf16,measured_gib,phantom_run_gib",
        "128,step,False,12.9,12.9031",
        "512,step,False,51.38,51.3879",
    )
    _write(tmp_path, "ddp_wedsonlin.csv", "mode,rank,phase,reading,measured_gib,phantom_gib", "b,0,p,a,25.572,25.571")
    _write(tmp_path, "litgpt.csv", "config,measured_gb,phantom_run_gb", "tiny full,14.1,14.46")
    _write(
        tmp_path,
        "timm_rtx3090.csv",
        "model,batch,measured,phantom,phantom_peak_allocated",
        f"a,64,ok,ok,{CARD // 2}",
        f"a,96,oom,oom,{CARD - (400 << 20)}",
        f"b,64,ok,ok,{CARD // 2}",
        f"b,96,oom,ok,{int(CARD * 0.95) - (260 << 20)}",
    )
    _write(tmp_path, "snapshots.csv", "repository,file", "me+one,s.pickle", "me+other,gone.pickle")
    h = History()
    for mib in (12, 14, 12):
        h.give(h.take(mib))
    plain = h.write(tmp_path / "one__s.pickle")
    with gzip.open(tmp_path / "one__s.pickle.gz", "wb") as file:
        file.write(plain.read_bytes())
    plain.unlink()
    History().write(tmp_path / "one__empty.pickle")
    return tmp_path


def test_errors_and_what_is_called(tables: Path, published: Callable[..., ModuleType]) -> None:
    rows, skipped = published("compare").table(tables, tables)
    of = {(row["kind"], row["case"]): row for row in rows}
    readings = [row for row in rows if row["kind"] == "reading"]
    assert [row["right"] for row in readings] == [True, True, True, False, False, False]
    assert [row["error_percent"] for row in readings] == [0, 0.0006, 0.024, 0.0154, -0.0039, 2.5532]
    batches = {case: (row["right"], row["room_percent"]) for (kind, case), row in of.items() if kind == "batch"}
    assert batches["a, batch 96"] == (True, "")
    assert batches["b, batch 96"] == (False, 5.0)
    assert batches["a, batch 64"] == (True, 48.93)
    [snapshot] = [row for row in rows if row["kind"] == "snapshot"]
    assert (snapshot["case"], snapshot["right"], snapshot["requests"], snapshot["placed"]) == ("one__s", True, 3, 3)
    assert len(skipped) == 2
    assert "one__empty.pickle: its history has no allocations" in skipped[0]
    assert skipped[1] == "me+other gone.pickle: not in the folder, or without a history"


def test_no_measured_figure_is_kept(published: Callable[..., ModuleType]) -> None:
    """Sources without a licence: only our own errors and names of cases are in the repository."""
    header, *lines = (ROOT / "experiments" / "expected" / "published.csv").read_text().splitlines()
    assert header == ",".join(published("compare").COLUMNS)
    assert len(lines) > 100


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("litgpt.csv", "config,measured_gb\nx,3"),
        ("litgpt.csv", "config,measured_gb,phantom_run_gb\nx,3,much"),
        ("litgpt.csv", "config,measured_gb,phantom_run_gb\nx,0,1"),
        ("timm_rtx3090.csv", "model,batch,measured\na,3,ok"),
    ],
)
def test_other_tables_are_refused(name: str, text: str, tables: Path, published: Callable[..., ModuleType]) -> None:
    (tables / name).write_text(text)
    with pytest.raises(CoopsimError, match="not such a table") as caught:
        published("compare").table(tables, tables)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_missing(tables: Path, published: Callable[..., ModuleType]) -> None:
    (tables / "litgpt.csv").unlink()
    with pytest.raises(CoopsimError, match=r"litgpt\.csv"):
        published("compare").table(tables, tables)
    with pytest.raises(CoopsimError, match=r"no \*\.pickle"):
        list(published("histories").read(tables / "nowhere"))


def test_the_page_says_what_is_expected(published: Callable[..., ModuleType]) -> None:
    page = published("page")
    from experiments.common.pages import read_section

    assert read_section("published").strip() == page.section().strip()
    text = page.DOCS.read_text(encoding="utf-8")
    for name in ("vgg16", "inception_v4", "gmlp_s16_224", "resnet152", "resnetv2_50x1_bitm"):
        assert any(f"timm: {name}, batch" in line for line in page.misses())
        assert f"| {name}, " in text, "every miss is named"
