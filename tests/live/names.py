"""Names of the programs (programs.py), for tests, whose own process has no torch."""

import ast
from pathlib import Path


def names() -> list[str]:
    """Of all programs. They are read and not imported: torch is there in child processes only."""
    tree = ast.parse((Path(__file__).parent / "programs.py").read_text(encoding="utf-8"))
    marked = (f for f in tree.body if isinstance(f, ast.FunctionDef) and f.decorator_list)
    return [f.name for f in marked if any(getattr(d, "id", "") == "program" for d in f.decorator_list)]


NAMES = names()
#: Steps that change so often that few go by plan, or whose budget is less than what no policy can evict.
SELDOM_PLANNED = {"a_branch", "closure", "eight_lengths", "checkpointed"}
