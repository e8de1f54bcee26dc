"""The trace of a GPU beside that of the phantom GPU: ops aligned in order, and every difference between them."""

import difflib
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from coopsim.trace import Trace
from experiments.gpu import explain

#: What is compared of two ops, and the name of a difference in it.
ASPECTS = ("creates", "reads", "mutates", "temporaries", "requests", "frees", "phase", "module", "flops")


def facts(trace: Trace) -> list[dict[str, Any]]:
    """By op, what is compared: bytes of storages instead of their numbers, which differ as soon as an op does."""
    sizes = trace.bytes.tolist()
    frees: dict[int, list[int]] = defaultdict(list)
    for storage, op in zip(trace.freed.tolist(), trace.freed_after.tolist(), strict=True):
        frees[op].append(sizes[storage])
    rows = {key: getattr(trace, key).rows() for key in ("creates", "reads", "mutates", "temporaries", "requests")}
    return [
        {
            **{key: [sizes[s] for s in rows[key][op]] for key in ("creates", "reads", "mutates")},
            "temporaries": sorted(rows["temporaries"][op], reverse=True),
            "requests": rows["requests"][op],
            "frees": sorted(frees[op], reverse=True),
            "phase": trace.phase[op],
            "module": trace.module[op],
            "flops": int(trace.flops[op]),
        }
        for op in range(trace.n_ops)
    ]


def aligned(gpu: Trace, phantom: Trace) -> Iterator[tuple[int | None, int | None]]:
    """Pairs of ops with the same name, in order; None beside an op that the other trace lacks."""
    matcher = difflib.SequenceMatcher(None, gpu.name, phantom.name, autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        if kind == "equal":
            yield from zip(range(a, b), range(c, d), strict=True)
        else:
            yield from ((i, None) for i in range(a, b))
            yield from ((None, j) for j in range(c, d))


def compare(gpu: Trace, phantom: Trace) -> dict[str, Any]:
    """`summary`: ops of each, of both, and how many differ in what; `differences`: one row each, with its cause;
    `causes`: how often each."""
    ours, theirs = facts(gpu), facts(phantom)
    rows: list[dict[str, Any]] = []
    both, counts = 0, Counter[str]()
    for i, j in aligned(gpu, phantom):
        name, module = (gpu.name[i], gpu.module[i]) if i is not None else (phantom.name[j or 0], phantom.module[j or 0])
        place = {"gpu_op": i, "phantom_op": j, "op": name, "module": module}
        if i is None or j is None:
            what = "only on the GPU" if j is None else "only on the phantom"
            counts[what] += 1
            alone = {"gpu": None if i is None else ours[i], "phantom": None if j is None else theirs[j]}
            rows.append(place | {"what": what, "block": both} | alone)
            continue
        both += 1
        for aspect in ASPECTS:
            if ours[i][aspect] != theirs[j][aspect]:
                counts[aspect] += 1
                rows.append(place | {"what": aspect, "gpu": ours[i][aspect], "phantom": theirs[j][aspect]})
    keys = ("peak_requested_bytes", "peak_allocated_bytes", "peak_reserved_bytes", "workspace_bytes")
    summary: dict[str, Any] = {"gpu_ops": gpu.n_ops, "phantom_ops": phantom.n_ops, "both": both, **dict(counts)}
    summary |= {key: [gpu.header.get(key), phantom.header.get(key)] for key in keys}
    found = explain.explain(rows)
    causes = Counter(found)
    for row, cause in zip(rows, found, strict=True):
        row["cause"] = cause
        row.pop("block", None)
    summary["versions"] = [gpu.header.get("versions"), phantom.header.get("versions")]
    return {"summary": summary, "differences": rows, "causes": dict(causes)}


def temporaries(gpu: Trace, phantom: Trace) -> list[dict[str, Any]]:
    """Temporaries by op where either has some: a row for each op with the same FLOPs, bytes and results.

    `gpu` and `phantom` are bytes of each temporary, and `requests` the order in which the op asked on the GPU
    (docs/reference/files.md, column `requests`); `count` says how many ops of the trace the row is of.
    """
    ours, theirs = facts(gpu), facts(phantom)
    found: Counter[tuple[Any, ...]] = Counter()
    for i, j in aligned(gpu, phantom):
        if i is None or j is None or not (ours[i]["temporaries"] or theirs[j]["temporaries"]):
            continue
        key = gpu.name[i], int(gpu.flops[i]), int(gpu.bytes_moved[i]), tuple(ours[i]["creates"])
        found[*key, tuple(ours[i]["temporaries"]), tuple(theirs[j]["temporaries"]), tuple(ours[i]["requests"])] += 1
    columns = ("op", "flops", "bytes_moved", "creates", "gpu", "phantom", "requests")
    return [dict(zip(columns, key, strict=True)) | {"count": n} for key, n in sorted(found.items())]
