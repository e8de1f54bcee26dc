"""Write docs/reference/python.md, the public Python calls from their docstrings: `python docs/_ext/api_page.py`."""

import functools
import inspect
import re
import sys
import textwrap
import types
from pathlib import Path
from typing import Any

import coopsim
from coopsim.base.files import replacing

PAGE = Path(__file__).parent.parent / "reference" / "python.md"
CALLS = (
    "load",
    "save",
    "capture",
    "phantom_gpu",
    "replay",
    "summary",
    "validate",
    "plot",
    "sweep",
    "bands",
    "compare",
    "map",
    "report",
    "gap",
    "fit",
    "cuda_caching",
)
CLASSES = ("Trace", "TraceBuilder", "Schedule", "Policy", "EvictionPolicy", "compiled", "Memory")
CHOICES = ("Role", "Phase", "Cost", "Divisor", "Recency", "Placement", "InPlace")
_HEAD = """# Python API

Everything that a script or a notebook needs is in `coopsim` itself. `import coopsim` imports nothing else; each name
is imported when it is first used.

```python
import coopsim

trace = coopsim.load("synth:unet:4")
schedule = coopsim.replay(trace, "coop", budget="60%")
print(coopsim.summary(schedule)["overhead"], coopsim.validate(schedule, trace))
coopsim.plot(schedule, trace).figure.savefig("map.png")
table = coopsim.sweep([trace], ["coop", "dtr-oneflow"], ["90%", "60%"], band=3, steps=2)
```

Calls that cannot work raise `coopsim.CoopsimError`, with one line that says why. Running out of memory is an
outcome, not an error. In a notebook, traces and schedules are shown as tables. `coopsim.live` is on [its
page](../live.md). Words and units are in the [glossary](../how-it-works.md#glossary). This page is made from
the docstrings by `docs/_ext/api_page.py`; what it does not name is private.
"""


def page() -> str:
    """The page."""
    calls = [_entry(f"coopsim.{name}", _target(name)) for name in CALLS]
    classes = [_class(*_named(name)) for name in CLASSES]
    choices = ["| | | values |", "| --- | --- | --- |", *map(_choice, CHOICES)]
    parts = [_HEAD, "## Calls\n", *calls, "## Values\n", *classes, "## Choices\n", *choices]
    return "\n".join(parts).rstrip() + "\n"


def _choice(name: str) -> str:
    values = ", ".join(f"`{value}`" for value in getattr(coopsim, name))
    return f"| `coopsim.{name}` | {_text(getattr(coopsim, name))} | {values} |"


def _named(name: str) -> tuple[str, type]:
    """A class with its title. `Memory` is made by replays only, and has no public name."""
    if name == "Memory":
        from coopsim.simulate.replay.user_memory import Memory

        return "memory, as a policy sees it", Memory
    return f"coopsim.{name}", getattr(coopsim, name)


def _target(name: str) -> Any:
    module, attribute = coopsim._WHERE[name]
    __import__(module)
    return getattr(sys.modules[module], attribute)


def _entry(title: str, what: Any) -> str:
    return f"### {title}\n\n{_signature(title, what)}\n\n{_text(what)}\n"


def _signature(title: str, what: Any) -> str:
    """The call, a parameter a line where it is long, without annotations: the text says what each is."""
    found = inspect.signature(what)
    plain = found.replace(
        parameters=[p.replace(annotation=p.empty) for p in found.parameters.values()],
        return_annotation=found.empty,
    )
    words = re.sub(r"<\w+\.\w+: ('[^']*')>", r"\1", f"{title}{plain}")
    return f"    {words}"


def _class(title: str, what: type) -> str:
    own = {name: value for name, value in vars(what).items() if not name.startswith("_") and inspect.getdoc(value)}
    shown = (property, functools.cached_property, types.FunctionType)
    lines = [
        textwrap.fill(
            f"- `{name}{_call(value) if inspect.isfunction(value) else ''}`: {' '.join(_text(value).split())}",
            width=120,
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        for name, value in own.items()
        if isinstance(value, shown)
    ]
    return f"### {title}\n\n{_text(what)}\n" + ("\n" + "\n".join(lines) + "\n" if lines else "")


def _call(method: Any) -> str:
    """What a method takes, without `self`."""
    names = [str(p).partition(":")[0] for p in list(inspect.signature(method).parameters.values())[1:]]
    return f"({', '.join(names)})"


def _text(what: Any) -> str:
    """The docstring, its arguments as a list: `name: what it is` begins one."""
    return re.sub(r"\n(?=\n)", "\n", inspect.getdoc(what) or "").strip()


if __name__ == "__main__":
    with replacing(PAGE) as part:
        part.write_text(page(), encoding="utf-8")
