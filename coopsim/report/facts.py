"""What a trace is, in words, for the head of its page."""

from typing import TYPE_CHECKING, Any

from coopsim.text import human
from coopsim.trace.measure import info

if TYPE_CHECKING:
    from coopsim.trace import Trace

_SETTINGS = ("batch", "sequence", "optimizer", "precision", "amp", "attention")
_ORIGIN = ("source", "command", "device", "cost_source", "temporaries")


def facts(trace: "Trace") -> dict[str, Any]:
    """`label` and `title` of the trace, and lists of (name, text): `facts` first, `provenance` for who wants it."""
    found = info(trace)
    header = found["header"]
    steps, at_start = found["steps"], found["bytes_at_start"]
    phases = ", ".join(f"{n} {phase}" for phase, n in found["ops_by_phase"].items())
    settings = [(name, str(header[name])) for name in _SETTINGS if name in header]
    roles = ", ".join(f"{role.replace('_', ' ')} {human(n)}" for role, n in found["bytes_by_role"].items())
    versions = header.get("versions")
    versions = versions.items() if isinstance(versions, dict) else ()
    cautions = header.get("approximations", ())
    return {
        "label": trace.label,
        "title": str(header.get("title", "")),
        "facts": [
            *settings,
            ("ops", f"{found['ops']} ({phases})" + (f" in {steps} steps" if steps > 1 else "")),
            ("storages", f"{found['storages']}, {human(at_start)} there at the start"),
            ("peak without eviction", human(found["peak_bytes_rounded"])),
            ("cost", f"{found['base_cost_ns'] / 1e6:.1f} ms per recording, {found['flops'] / 1e12:.2f} TFLOP"),
        ],
        "provenance": [
            ("hash", found["content_hash"]),
            ("recorded with", ", ".join(f"{name} {version}" for name, version in versions) or "unknown"),
            *((name.replace("_", " "), str(header[name])) for name in _ORIGIN if name in header),
            ("made, by role", roles),
            ("in place, random", f"{found['in_place_ops']} ops in place, {found['random_ops']} random"),
            *(("caution", str(text)) for text in cautions),
        ],
    }
