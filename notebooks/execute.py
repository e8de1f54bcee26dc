"""Execute the notebooks as the tests do, and write them back: `make notebooks`, or `python notebooks/execute.py 03`.

Each runs from the top in a fresh kernel, in a folder of its own beside `traces/`, so that nothing is left behind. What
would differ between two runs (timings, execution metadata) is not kept: the same versions give the same text.
"""

import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).resolve().parent


def names() -> list[str]:
    """The notebooks, in their order."""
    return sorted(p.name for p in HERE.glob("*.ipynb"))


def execute(name: str, *, timeout_s: int = 300) -> Any:
    """The notebook as it is after a run, without what varies. nbclient's CellExecutionError if a cell fails."""
    notebook = nbformat.read(HERE / name, as_version=4)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # for `!coopsim …`
    with tempfile.TemporaryDirectory() as folder:
        room = Path(folder) / "notebooks"
        room.mkdir()
        (room.parent / "traces").symlink_to(HERE.parent / "traces")
        (room / "strips.py").symlink_to(HERE / "strips.py")
        client = NotebookClient(
            notebook,
            timeout=timeout_s,
            kernel_name="python3",
            record_timing=False,
            resources={"metadata": {"path": str(room)}},
        )
        client.execute(env=os.environ | {"PATH": path, "COLUMNS": "100"})
    return clean(notebook)


def clean(notebook: Any) -> Any:
    """Without what varies between runs; cells are numbered, and neighbouring pieces of one stream joined."""
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python", "pygments_lexer": "ipython3"},
    }
    for k, cell in enumerate(notebook.cells):
        cell.id, cell.metadata = f"cell-{k + 1:02d}", {}
        for output in cell.get("outputs", []):
            output.pop("execution_count", None)
            if "metadata" in output:
                output["metadata"] = {}
        if cell.cell_type == "code":
            cell.outputs = [o for o in cell.outputs if o.get("data") != {"text/plain": ""}]  # progress, which is over
            cell.outputs = joined(cell.outputs)
            for output in cell.outputs:
                if output.output_type == "execute_result":
                    output["execution_count"] = cell.execution_count
    return notebook


def joined(outputs: list[Any]) -> list[Any]:
    """Outputs, those of one stream that follow each other as one: how they are cut is chance."""
    found: list[Any] = []
    for output in outputs:
        if output.output_type == "stream" and found and found[-1].get("name") == output.name:
            found[-1].text += output.text
        else:
            found.append(output)
    return found


_MEASURED = re.compile(r"^(host +)[\d.]+ .iB", re.MULTILINE)


def texts(notebook: Any) -> list[str]:
    """What each code cell said in words: its streams, and its results as text and HTML; a picture as `<picture>`.

    How much of the host's memory a run took differs by some pages from run to run; that amount is left out.
    """
    said = []
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        words = []
        for output in cell.outputs:
            data = output.get("data", {})
            words += [output.get("text", ""), data.get("text/plain", ""), data.get("text/html", "")]
            words += ["<picture>"] if "image/png" in data else []
        said.append(_MEASURED.sub(r"\1…", "\n".join(w for w in words if w)))
    return said


def main(wanted: list[str]) -> None:
    """Execute and write back all notebooks, or those whose names begin with a word of `wanted`."""
    for name in names():
        if not wanted or any(name.startswith(w) for w in wanted):
            print(f"executing {name}", file=sys.stderr, flush=True)
            nbformat.write(execute(name), HERE / name)


if __name__ == "__main__":
    main(sys.argv[1:])
