"""Make a CUDA build of PyTorch small enough to be carried in parts to a machine with one kind of GPU.

    python experiments/gpu/slim_torch.py torch-2.13.0-cp312-cp312-manylinux_2_28_x86_64.whl sm_90 OUT [--part-mib 50]

Unpacks the wheel, zeroes the device code of all architectures but the one named (sm_90: H100 and H200), leaves out the
tools in torch/bin, and writes OUT/torch.tar.gz.00, .01, …; README.md says how they are used there.
NVIDIA's libraries are not in it. Nothing but Python's own library, tar and gzip are needed here.
"""

import argparse
import gzip
import mmap
import struct
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

_FATBIN = b"\x50\xed\x55\xba"  #: how a fat binary begins
_ELF = 2  #: the kind of an entry that is code for one architecture; others are PTX
_SECTIONS = (".nv_fatbin", "__nv_relfatbin")
_COMPRESSION = 6


def blank(library: Path, keep: int) -> int:
    """Zero the device code of other architectures in a shared library. The bytes zeroed."""
    zeroed = 0
    with library.open("r+b") as file, mmap.mmap(file.fileno(), 0) as data:
        for start, end in _sections(data):
            for at, length, kind, arch in _entries(data, start, end):
                if kind != _ELF or arch != keep:
                    data[at : at + length] = bytes(length)
                    zeroed += length
    return zeroed


def _sections(data: mmap.mmap) -> Iterator[tuple[int, int]]:
    """Start and end of the sections with device code, in a 64-bit ELF file."""
    table = struct.unpack_from("<Q", data, 0x28)[0]
    size, count, names = struct.unpack_from("<HHH", data, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * size) for i in range(count)]
    for name, _, _, _, start, length, *_ in headers:
        text = headers[names][4] + name
        if data[text : data.find(b"\0", text)].decode() in _SECTIONS:
            yield start, start + length


def _entries(data: mmap.mmap, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Start, length, kind and architecture of each entry of the fat binaries there."""
    while at < end:
        if data[at : at + 4] != _FATBIN:
            at += 8
            continue
        _, _, header, body = struct.unpack_from("<IHHQ", data, at)
        entry, at = at + header, at + header + body
        while entry < at:
            kind, _, head, length = struct.unpack_from("<HHIQ", data, entry)
            yield entry + head, length, kind, struct.unpack_from("<I", data, entry + 28)[0]
            entry += head + length
        at = (at + 7) // 8 * 8


class Parts:
    """A file to write to that is cut into parts of so many bytes, NAME.00, NAME.01, …"""

    def __init__(self, name: Path, nbytes: int) -> None:
        self.written: list[Path] = []
        self._name, self._nbytes, self._left = name, nbytes, 0
        self._file: IO[bytes] | None = None

    def write(self, data: bytes) -> int:
        """As a file's."""
        rest = memoryview(data)
        while len(rest):
            if not self._left:
                self.close()
                self.written.append(self._name.with_name(f"{self._name.name}.{len(self.written):02}"))
                self._file, self._left = self.written[-1].open("wb"), self._nbytes
            assert self._file is not None
            taken = self._file.write(rest[: self._left])
            self._left, rest = self._left - taken, rest[taken:]
        return len(data)

    def flush(self) -> None:
        """As a file's."""

    def close(self) -> None:
        """Close the last part."""
        if self._file is not None:
            self._file.close()


def unpack(wheel: Path, tree: Path) -> None:
    """The wheel's files, without the tools of torch/bin but the one that is needed."""
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(tree)  # noqa: S202 (a wheel of PyTorch)
    for file in (tree / "torch" / "bin").glob("*"):
        if file.name == "torch_shm_manager":
            file.chmod(0o755)
        else:
            file.unlink()


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("arch", help="such as sm_90")
    parser.add_argument("out", type=Path)
    parser.add_argument("--part-mib", type=int, default=50)
    args = parser.parse_args()
    number = args.arch.removeprefix("sm_")
    if not number.isdigit() or not args.wheel.is_file():
        what = f"{args.wheel} is no file" if number.isdigit() else f"{args.arch} is no architecture such as sm_90"
        print(f"slim_torch.py: {what}", file=sys.stderr)
        return 2
    tree = args.out / "tree"
    tree.mkdir(parents=True, exist_ok=True)
    unpack(args.wheel, tree)
    for library in sorted((tree / "torch" / "lib").glob("*.so")):
        if zeroed := blank(library, int(number)):
            print(f"{library.name}: {zeroed >> 20} MiB of device code left out")
    parts = Parts(args.out / "torch.tar.gz", args.part_mib << 20)
    with (
        gzip.GzipFile(fileobj=parts, mode="wb", compresslevel=_COMPRESSION) as packed,  # type: ignore[call-overload]
        tarfile.open(fileobj=packed, mode="w") as tar,
    ):
        for path in sorted(tree.iterdir()):
            tar.add(path, path.name)
    parts.close()
    print(f"{len(parts.written)} parts, {sum(part.stat().st_size for part in parts.written) >> 20} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
