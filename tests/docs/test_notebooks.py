"""The notebooks run from the top, and still say what the committed ones say."""

import importlib.util
from typing import Any

import nbformat
import pytest

from tests.conftest import ROOT

NOTEBOOKS = ROOT / "notebooks"
_spec = importlib.util.spec_from_file_location("execute", NOTEBOOKS / "execute.py")
assert _spec is not None
assert _spec.loader is not None
execute: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(execute)
ON_PHANTOM = ("01", "04")  #: those that run PyTorch


def committed(name: str) -> Any:
    return nbformat.read(NOTEBOOKS / name, as_version=4)


def test_there_are_five() -> None:
    assert [name[:2] for name in execute.names()] == ["01", "02", "03", "04", "05"]


@pytest.mark.slow
@pytest.mark.parametrize("name", execute.names())
def test_says_the_same_again(name: str, request: pytest.FixtureRequest) -> None:
    if name.startswith(ON_PHANTOM):
        request.getfixturevalue("phantom_gpu")
    again = execute.texts(execute.execute(name))
    assert again == execute.texts(committed(name))


@pytest.mark.parametrize("name", execute.names())
def test_is_committed_as_executed(name: str) -> None:
    notebook = committed(name)
    nbformat.validate(notebook)
    assert (NOTEBOOKS / name).stat().st_size < 500_000
    assert sum("<picture>" in said for said in execute.texts(notebook)) >= 1
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert all(cell.metadata == {} for cell in notebook.cells)
    assert not any(o.output_type == "error" or o.get("name") == "stderr" for cell in code for o in cell.outputs)
    assert "/tmp" not in str(code)
