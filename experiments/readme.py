"""Sections of the README that are made by experiments."""

from pathlib import Path

README = Path(__file__).parent.parent / "README.md"


def write_section(name: str, text: str) -> None:
    """Put text between the marks `<!-- NAME -->` and `<!-- end of NAME -->`. ValueError if there are none."""
    before, mark, rest = README.read_text(encoding="utf-8").partition(f"<!-- {name} -->\n")
    _, end, after = rest.partition(f"<!-- end of {name} -->\n")
    if not mark or not end:
        raise ValueError(f"the README has no section {name}")
    README.write_text(f"{before}{mark}{text.rstrip()}\n{end}{after}", encoding="utf-8")
