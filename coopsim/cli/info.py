"""coopsim info T: show what a trace contains."""

import argparse
import json

from coopsim.base.text import human, listed
from coopsim.trace import load_trace


def run(args: argparse.Namespace) -> int:
    from coopsim.trace.measure import info

    trace = load_trace(args.trace)
    facts = info(trace)
    if args.json:
        print(json.dumps(facts, indent=1))
        return 0
    header = {**facts["header"], "precision": trace.precision}
    recorded = ", ".join(
        f"{k} {header[k]}"
        for k in ("batch", "optimizer", "precision", "amp", "attention", "device", "torch")
        if header.get(k)
    )
    phases = ", ".join(f"{n} {phase}" for phase, n in facts["ops_by_phase"].items())
    collectives = []
    if facts["collectives"]:
        taken = f"{human(facts['collective_bytes'])} of messages, {facts['collective_cost_ns'] / 1e6:.1f} ms"
        of = f" (rank {header.get('rank', 0)} of {header['world_size']})" if "world_size" in header else ""
        collectives = [("collectives", f"{facts['collectives']}{of}: {taken}")]
    lines = [
        ("trace", facts["trace"] + (f" ({recorded})" if recorded else "")),
        ("ops", f"{facts['ops']} ({phases}) in {facts['steps']} step{'s' * (facts['steps'] > 1)}"),
        ("", f"{facts['in_place_ops']} in place, {facts['random_ops']} random, {facts['temporaries']} temporaries"),
        ("storages", f"{facts['storages']}, {human(facts['bytes_at_start'])} there at the start"),
        *((f"  {role}", f"{human(n)} (sum over the step)") for role, n in facts["bytes_by_role"].items()),
        (
            "peak",
            f"{human(facts['peak_bytes'])} without eviction ({human(facts['peak_bytes_rounded'])} rounded to 512 B)",
        ),
        ("cost", f"{facts['base_cost_ns'] / 1e6:.1f} ms per recording, {facts['flops'] / 1e12:.2f} TFLOP"),
        ("", facts["cost_source"]),
        *collectives,
        *(("caution" if i == 0 else "", text) for i, text in enumerate(header.get("approximations", ()))),
        ("hash", facts["content_hash"]),
    ]
    print(listed(lines, 18))
    return 0
