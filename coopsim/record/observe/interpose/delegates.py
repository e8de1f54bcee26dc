"""Generate the C++ class that wraps PyInterpreterVTable, the functions by which PyTorch's core calls Python."""

import re
from pathlib import Path

from coopsim.record.observe.torch_private import INTERPRETER_FUNCTION, INTERPRETER_HEADER


def text(include: Path, own: tuple[str, ...], *, traces: bool) -> str:
    """Return the text of a C++ header: methods, one for each function of PyInterpreterVTable but those in `own`.

    Each calls the same function of the object `real`, PyTorch's own table; without `traces`, the hooks of sanitizers
    (trace_gpu_*) do nothing instead. `include` is torch's include folder, whose header lists the functions.
    """
    header = (include / INTERPRETER_HEADER).read_text(encoding="utf-8")
    lines = []
    for kind, name, given in INTERPRETER_FUNCTION.findall(re.sub(r"//[^\n]*", "", header)):
        if name in own:
            continue
        types = [_type(" ".join(one.split())) for one in given.split(",") if one.strip()]
        takes = ", ".join(f"{one} a{i}" for i, one in enumerate(types))
        gives = ", ".join(f"std::move(a{i})" for i in range(len(types)))
        body = f"return real->{name}({gives});" if traces or not name.startswith("trace_gpu_") else ""
        lines.append(f"{kind} {name}({takes}) const override {{ {body} }}")
    return "\n".join(lines) + "\n"


def _type(parameter: str) -> str:
    """Return the type of a parameter, which may have a name: `const TensorImpl* self`, `at::MemoryFormat`."""
    words = parameter.split(" ")
    named = len(words) > 1 and re.fullmatch(r"\w+", words[-1]) and words[-2] != "const"
    return " ".join(words[:-1]) if named else parameter
