"""Plan files: recorded step signatures and their schedules, in a zip archive (docs/reference/files.md). Knows no torch.

The plans that `live run` keeps for other starts of a script are such files, in the user's cache folder, each under a
key: the program and its arguments, budget, card, settings and versions.
"""

import hashlib
import json
import tempfile
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from coopsim.base import alloc_conf
from coopsim.base.files import cache_folder, replacing
from coopsim.base.types import CoopsimError
from coopsim.live.errors import LiveError
from coopsim.live.host import Hosting
from coopsim.live.plan import Entry
from coopsim.live.signatures import Candidate, PlanState, Signature
from coopsim.run.script import PYTHON
from coopsim.trace import file as traces
from coopsim.trace import schedule as schedules

_MOST, _MOST_BYTES = 64, 256 << 20  #: files that are kept for other starts, the latest ones, and all together
VERSION = 2  #: 1 had no copies to the host
_HEAD = "plan.json"
_MANY = 4096  #: signatures that are read of a file, at most


@dataclass(frozen=True)
class PlanFile:
    """The step signatures of a program, with their plans, and what these are for.

    budget_bytes: 0 if the steps were only recorded. others_bytes: what the allocator hands out to others than the
    program's storages, such as cuBLAS's workspaces. torch: its version. device: "cuda" or "cpu". command: the title of
    the program. arena: whether the steps ran in an arena, and all requests of their plans have addresses. hosting: what
    plans may use of the host; None: they do not offload. card: of the machine that the plans were kept on; "" for the
    CPU, and for any. steady: False if replanning the plans did not end that steps take memory from the GPU or give it
    back.
    """

    budget_bytes: int
    policy: str
    others_bytes: int
    torch: str
    device: str
    command: str = ""
    signatures: Sequence[Signature] = ()
    plan_version: int = VERSION
    arena: bool = False
    hosting: Hosting | None = None
    card: str = ""
    steady: bool = True


def save(plan: PlanFile, path: str | Path) -> None:
    """Write a plan file, whole or not at all, in place of one that is there. The same plans give the same bytes."""
    head = asdict(replace(plan, signatures=())) | {
        "kinds": [
            {
                "decided": k.decided,
                "first": k.first,
                "why": k.state.why,
                "less_bytes": k.state.margin,
                "finished": k.state.stays,
            }
            for k in plan.signatures
        ]
    }
    del head["signatures"]
    with (
        tempfile.TemporaryDirectory(prefix="coopsim-") as folder,
        replacing(path) as part,
        zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        _put(archive, _HEAD, json.dumps(head, indent=1, sort_keys=True).encode())
        for i, signature in enumerate(plan.signatures):
            file = Path(folder, "table")
            traces.save(signature.trace, file)
            _put(archive, f"{i}/trace.parquet", file.read_bytes())
            rows = [_row(entry) for entry in signature.op_log]
            _put(archive, f"{i}/tape.json", json.dumps(rows, separators=(",", ":")).encode())
            if signature.state.schedule is not None:
                schedules.save(signature.state.schedule.without_times(), file)
                _put(archive, f"{i}/schedule.parquet", file.read_bytes())


def _row(entry: Entry) -> list[Any]:
    """What a file has of an op. Which parameters were operands is left out: it means nothing elsewhere."""

    def plain(shapes: Any) -> list[list[Any]]:
        return [[*sizes, str(dtype).removeprefix("torch.")] for *sizes, dtype in shapes]

    shapes = [plain(entry.shapes[0]), plain(entry.shapes[1])]
    return [str(entry.func), shapes, entry.inputs, entry.results, entry.op, entry.mutable]


def _put(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)


def load(path: str | Path) -> PlanFile:
    """Read a plan file. Raises LiveError if it is missing, damaged, of another signature or of a newer coopsim."""
    try:
        with zipfile.ZipFile(path) as archive:
            head = json.loads(archive.read(_HEAD))
            if head["plan_version"] > VERSION:
                raise LiveError(
                    f"{path}: plan version {head['plan_version']} is newer than this coopsim ({VERSION}); upgrade"
                )
            signatures = [_signature(archive, i, about) for i, about in enumerate(head.pop("kinds")[:_MANY])]
            return PlanFile(**head | {"hosting": _hosting(path, head.get("hosting"))}, signatures=signatures)
    except FileNotFoundError:
        raise LiveError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise LiveError(f"{path}: is a folder, not a plan") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as e:
        raise LiveError(f"{path}: not a plan, or damaged ({str(e).splitlines()[0]})") from None
    except LiveError:
        raise
    except CoopsimError as e:
        raise LiveError(f"{path}: damaged ({str(e).rpartition(': ')[2]})") from None
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as e:
        raise LiveError(f"{path}: not a plan of coopsim live ({str(e).splitlines()[0]})") from None


def _hosting(path: str | Path, saved: dict[str, Any] | None) -> Hosting | None:
    """What plans may use of the host. Older files say of the optimizer's state, too, whether it may go there."""
    if saved and saved.pop("state", False):
        raise LiveError(f"{path}: a plan with --offload-state, which is no more; plan anew")
    return Hosting(saved["link"], saved["memory_bytes"]) if saved else None


def _signature(archive: zipfile.ZipFile, i: int, about: dict[str, Any]) -> Signature:
    with tempfile.TemporaryDirectory(prefix="coopsim-") as folder:
        file = Path(folder, "table")
        file.write_bytes(archive.read(f"{i}/trace.parquet"))
        trace = traces.load(file)
        schedule = None
        if f"{i}/schedule.parquet" in archive.namelist():
            file.write_bytes(archive.read(f"{i}/schedule.parquet"))
            schedule = schedules.load(file)
    op_log = [Entry(*row) for row in json.loads(archive.read(f"{i}/tape.json"))]
    for line in op_log:
        numbers = [*line.inputs, *line.results]
        if not (-1 <= line.op < trace.n_ops and all(-1 <= s < trace.n_storages for s in numbers)):
            raise ValueError("its op_log is not of its trace")
    if schedule is not None and schedule.header.get("trace") != trace.content_hash:
        raise ValueError("its schedule is not of its trace")
    candidate = Candidate(about["less_bytes"], schedule) if schedule is not None else None
    state = PlanState(about["why"], candidate, stays=bool(about.get("finished")))
    return Signature(trace, op_log, about["decided"], about["first"], state)


def card(name: str, nbytes: int) -> str:
    """A GPU with its bytes of memory, as headers name it."""
    return f"{name}, {nbytes} bytes"


@dataclass(frozen=True)
class Start:
    """The arguments of `live run` by which plans are made. asked_arena: None: only if the plans need one."""

    memory: str | None
    policy: str = "foresight-offline"
    gpu: str | None = None
    hosting: Hosting | None = None
    offload: bool | None = None
    arena: bool = False
    asked_arena: bool | None = None


def place(start: Start, command: Sequence[str], options: Mapping[str, object], versions: tuple[object, ...]) -> Path:
    """The file for the plans of a program, by all that they depend on, beside the machine and the steps themselves.

    options: of runs (RunOptions). versions: of coopsim and libraries. The folder is made; of the other files there,
    those that were used longest ago are removed, until no more than 64 are left, of 256 MiB.
    """
    words = command[1:] if len(command) > 1 and PYTHON.fullmatch(Path(command[0]).name) else command
    texts = [Path(word).read_bytes() for word in (*words, start.gpu or "") if _is_text(word)]
    key = versions, str(Path.cwd()), tuple(words), texts, alloc_conf.here(), dict(options), start
    folder = cache_folder() / "plans"
    folder.mkdir(parents=True, exist_ok=True)
    _trim(folder)
    return folder / f"{hashlib.sha256(repr(key).encode()).hexdigest()[:32]}.plan"


def _is_text(word: str) -> bool:
    return word.endswith((".py", ".json")) and Path(word).is_file()


def _trim(folder: Path) -> None:
    found = []
    for file in folder.glob("*.plan"):
        with suppress(OSError):  # another process has removed it
            found.append((file.stat().st_mtime_ns, file.stat().st_size, file))
    left = _MOST_BYTES
    for i, (_, nbytes, file) in enumerate(sorted(found, reverse=True)):
        left -= nbytes
        if i >= _MOST or left < 0:
            file.unlink(missing_ok=True)


def mark_steady(path: str | Path) -> None:
    """Let later starts follow the plans in this file as they are, as the script has failed in an arena."""
    save(replace(load(path), steady=True), path)
