"""What a process's CUDA context takes of a card, beside PyTorch's allocator: at first, and as libraries are used."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

#: The libraries with whose first use the context grows (csrc/libraries.h): kernels' code, and memory for their stacks.
LIBRARIES = ("cublas", "cublaslt", "cudnn", "cusolver", "cufft")
#: What training a transformer uses of them.
_TRAINING = ("cublas", "cublaslt")

#: How far a context may be from what is said of it. A reading is repeated to 2 MiB, and is taken to be good for the
#: minor version of torch with which it was made. With another, on the same card and driver, it was up to 64 MiB off
#: (2.11 and 2.13 on an H100). Assumptions may be off by half: that for the H100 was 520 MiB, where training took 687 to
#: 767.
_SAME_TORCH, _OTHER_TORCH, _ASSUMED = 10 << 20, 80 << 20, 0.5


@dataclass(frozen=True)
class ContextReading:
    """What the context of a process took, in bytes, once it had used the libraries that are `loaded`."""

    loaded: tuple[str, ...]
    nbytes: int


@dataclass(frozen=True)
class Readings:
    """Readings of one card with one version of torch and of CUDA; `driver` is "" if unknown."""

    torch: str
    cuda: str
    driver: str
    readings: tuple[ContextReading, ...]


@dataclass(frozen=True)
class Context:
    """The context's bytes at first, the bytes that it grows by at the first use of a library, and where from.

    off_by_bytes: by how much the context of a training process may differ, either way.
    """

    first_bytes: int
    grows: Mapping[str, int]
    off_by_bytes: int
    basis: str

    @property
    def training_bytes(self) -> int:
        """The bytes that it takes of a process that trains a transformer."""
        return self.with_libraries(_TRAINING)

    def with_libraries(self, loaded: Iterable[str]) -> int:
        """Return the bytes that it takes once these libraries have been used."""
        return self.first_bytes + sum(self.grows.get(library, 0) for library in loaded)

    def variables(self) -> dict[str, int]:
        """Return the settings of the stand-in runtime, without their prefix."""
        return {"CONTEXT": self.first_bytes} | {name.upper(): self.grows.get(name, 0) for name in LIBRARIES}


def assumed(nbytes: int) -> Context:
    """Return the context of a card of which there is no reading: the same whatever is used."""
    return Context(nbytes, {}, round(_ASSUMED * nbytes), "assumed")


def of(every: Sequence[Readings], torch: str, cuda: str, *, scale: float = 1.0, card: str = "") -> Context:
    """Return the context by the readings (at least one) nearest to these versions; "" is the newest version.

    scale: of this card's resident threads to those of the card of the readings, if they are of another, called `card`.
    """
    by_distance = sorted(every, key=lambda one: _distance(one, torch, cuda))
    nearest = by_distance[0]
    steps: dict[str, int] = {}
    for one in reversed(by_distance):  # what the nearest readings leave open, the others say
        steps = _steps(one.readings, steps)
    same = _minor(nearest.torch) == _minor(torch) and not card
    basis = f"measured with torch {nearest.torch} and CUDA {nearest.cuda}"
    basis = f"assumed, after the {card}'s: {basis}" if card else basis
    grows = {name: round(scale * steps.get(name, 0)) for name in LIBRARIES}
    off = _SAME_TORCH if same else _OTHER_TORCH
    return Context(round(scale * steps[""]), grows, off, basis)


def _steps(readings: Iterable[ContextReading], known: Mapping[str, int]) -> dict[str, int]:
    """Return the bytes at first (key "") and of each library, with which each reading is the sum of its parts.

    `known` says what readings leave open: those with several new parts give the first of them what the others leave.
    """
    found: dict[str, int] = {}
    for reading in sorted(readings, key=lambda one: len(one.loaded)):
        parts = ("", *reading.loaded)
        new = [part for part in parts if part not in found]
        if not new:
            continue
        for part in new[1:]:
            found[part] = known.get(part, 0)
        found[new[0]] = max(reading.nbytes - sum(found[part] for part in parts if part != new[0]), 0)
    return {**known, **found}


def _distance(one: Readings, torch: str, cuda: str) -> tuple[float, ...]:
    own = _minor(one.torch)
    wanted = _minor(torch) if torch else own
    far = (abs(a - b) for a, b in zip(own, wanted, strict=True))
    return cuda.partition(".")[0] not in ("", one.cuda.partition(".")[0]), *far, -own[0], -own[1]


def _minor(version: str) -> tuple[int, int]:
    """Return major and minor of a version, (0, 0) of what is none."""
    parts = version.split(".")[:2]
    return (int(parts[0]), int(parts[1])) if len(parts) == 2 and all(part.isdecimal() for part in parts) else (0, 0)
