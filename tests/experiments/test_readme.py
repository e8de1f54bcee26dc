"""The README of experiments/ names every script that one starts."""

from tests.conftest import ROOT

HERE = ROOT / "experiments"


def test_every_script_that_makes_a_page_is_named() -> None:
    """Others are programs that these start."""
    readme = (HERE / "README.md").read_text(encoding="utf-8")
    texts = {path: path.read_text(encoding="utf-8") for path in HERE.glob("*/*.py")}
    made = {path for path, text in texts.items() if "docs/" in text.split('"""')[1]}
    started = {path for path in made if '__name__ == "__main__"' in texts[path]}
    assert len(started) > 15
    unnamed = [
        str(path.relative_to(HERE))
        for path in started
        if path.name not in readme
        and f"`.{path.stem}`" not in readme
        and f"experiments.{path.parent.name}.{path.stem}`" not in readme
    ]
    assert sorted(unnamed) == []
