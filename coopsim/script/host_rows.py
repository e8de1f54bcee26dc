"""Memory of the host in words, as `phantom run` and `fit` print it."""

from typing import Any

from coopsim.text import human


def rows(host: dict[str, Any]) -> list[tuple[str, str]]:
    """Return (label, text) for each line about Report.host; a line without a label goes on with the one above.

    No rows if the host was not looked at.
    """
    if not host:
        return []
    found = [("host", f"{human(host['peak_rss_bytes'])} of its own memory at the peak, without CUDA's libraries")]
    workers = host["workers"]
    if workers["count"]:
        beside = f"{workers['count']} processes beside it: {human(workers['peak_rss_bytes'])} in all"
        found.append(("", f"{beside}; {human(host['shared_bytes'])} of shared memory"))
    for loader in host["loaders"]:
        kept = f"{loader['workers']} workers, {loader['prefetch']} batches each"
        found.append(("", f"by a DataLoader at {loader['place']}: {kept}"))
    if host["pinned_bytes"]:
        lines = [f"{one['place']}: {human(one['bytes'])} in all" for one in host["pinned_by"] if one["place"]]
        found.append(("pinned", f"{human(host['pinned_bytes'])} at the peak" + "".join(f"; {line}" for line in lines)))
    return found
