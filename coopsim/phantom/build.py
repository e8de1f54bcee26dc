"""Compile the stand-in libraries for the installed torch, once, into the user's cache folder.

Every NVIDIA library that torch's own libraries need is replaced by one of the same name: the runtime and the driver are
in csrc/, and so are some functions of the others; all other functions are stubs (functions.toml).
"""

import hashlib
import shutil
import subprocess
import tempfile
from importlib import resources
from pathlib import Path

from coopsim.base.errors import PhantomError
from coopsim.base.files import cache_folder
from coopsim.cards import wheel
from coopsim.phantom import compilers, functions

_RUNTIME = (
    "settings",
    "common",
    "captures",
    "contents",
    "host",
    "ranges",
    "memory",
    "copies",
    "driver",
    "device",
    "clock",
    "streams",
    "events",
    "graphs",
    "kernels",
    "modules",
)
#: The sources that implement functions of a library, by the start of its name.
_ANSWERS = {
    "libcublas.so": ("cublas",),
    "libcublasLt.so": ("cublaslt",),
    "libcufft.so": ("cufft",),
    "libcusolver.so": ("cusolver",),
    "libcusparse.so": ("cusparse",),
    "libnvrtc.so": ("nvrtc",),
    "libcudnn.so": ("cudnn", "cudnn_backend", "cudnn_rnn", "cudnn_sizes"),
    "libnccl.so": ("nccl", "nccl_data", "nccl_peers", "nccl_time"),
}
_NVML = "libnvidia-ml.so.1"
#: The library that must be loaded before any other, and its sources.
EXIT = "libcoopsim-exit.so"
_PRELOADED = ("exit", "watchdog", "blocks")
#: The files that decide how the sources are compiled, for the cache key.
_MAKERS = ("phantom/build.py", "cards/wheel.py", "phantom/functions.py", "phantom/functions.toml")
_C = ["-std=gnu11", "-O2", "-fPIC", "-fno-builtin", "-w"]


def libraries() -> Path:
    """Return the folder of stand-in libraries for the installed torch.

    A release has them compiled for one torch; for any other they are compiled at first use (some seconds). Raises
    PhantomError if torch, its CUDA build or Linux is missing, or, where they must be compiled, a C compiler.
    """
    torch = wheel.find()
    shipped = compilers.folder(torch.version, torch.cuda) / f"phantom-{key(torch)}"
    if shipped.is_dir():
        return shipped
    cc = compiler()
    folder = cache_folder() / f"phantom-{key(torch, _version(cc))}"
    if not folder.is_dir():
        compile_into(folder, torch, cc)
    return folder


def compile_into(folder: Path, torch: wheel.Wheel, cc: str) -> None:
    """Compile the libraries for a torch into a new folder, which has all of them or does not exist."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".phantom-"))
    try:
        _Build(torch, cc, scratch).run()
        try:
            scratch.rename(folder)
        except OSError:  # another process has made the same folder meanwhile
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def compiler() -> str:
    """Return the C compiler: $CC, or the first of cc, gcc, clang. Raises PhantomError if there is none."""
    found = compilers.find("CC")
    if found is None:
        raise PhantomError(f"{compilers.missing('CC')}; install one, as in: apt install gcc")
    return found


def _sources() -> dict[str, str]:
    folder = resources.files("coopsim.phantom").joinpath("csrc")
    files = sorted((f for f in folder.iterdir() if f.name.endswith((".c", ".h"))), key=lambda f: f.name)
    return {f.name: f.read_text(encoding="utf-8") for f in files}


def _version(cc: str) -> str:
    return subprocess.run([cc, "--version"], check=False, capture_output=True, text=True).stdout  # noqa: S603


def key(torch: wheel.Wheel, compiler_version: str = "") -> str:
    """Return a hash of what the libraries depend on: sources, torch's, CUDA's and the compiler's version."""
    h = hashlib.blake2b(digest_size=8)
    for text in (*_sources().values(), *map(_own_source, _MAKERS), torch.version, torch.cuda, compiler_version):
        h.update(text.encode() + b"\0")
    return h.hexdigest()


def _own_source(path: str) -> str:
    return resources.files("coopsim").joinpath(path).read_text(encoding="utf-8")


class _Build:
    """One compilation, into the folder `out`."""

    def __init__(self, torch: wheel.Wheel, cc: str, out: Path) -> None:
        self.torch, self.cc, self.out = torch, cc, out
        self.objects: dict[str, Path] = {}
        self.sources = out / "source"

    def run(self) -> None:
        self.sources.mkdir()
        for name, text in _sources().items():
            (self.sources / name).write_text(text, encoding="utf-8")
        major, minor = (int(n) for n in self.torch.cuda.split(".")[:2])
        defines = [f"-DCUDA_VERSION_NUMBER={1000 * major + 10 * minor}", f"-DCUDNN_VERSION_NUMBER={self.torch.cudnn}"]
        for name in (*_RUNTIME, *(n for names in _ANSWERS.values() for n in names), "nvml", *_PRELOADED):
            self.objects[name] = self.sources / f"{name}.o"
            self._cc(*_C, *defines, "-c", f"{self.sources / name}.c", "-o", str(self.objects[name]))
        wanted = {soname: _with_known(soname, of) for soname, of in wheel.imports(self.torch.libraries).items()}
        runtime = next((soname for soname in wanted if soname.startswith("libcudart.so")), None)
        if runtime is None:
            raise PhantomError(f"torch {self.torch.version} links the CUDA runtime statically; use a wheel from PyPI")
        driver = wanted.pop("libcuda.so.1")
        self._link(runtime, wanted.pop(runtime), _RUNTIME, exports="cu*; __cuda*; coopsim_phantom_*;")
        # The driver's functions live in the runtime, so that both see one memory.
        have = self._defined(_RUNTIME)
        missing = {symbol: version for symbol, version in driver.items() if symbol not in have}
        self._link("libcuda.so.1", missing, (), needs=runtime)
        (self.out / "libcuda.so").symlink_to("libcuda.so.1")  # Triton before 3.5 links by this name
        for soname, symbols in wanted.items():
            answers = next((a for start, a in _ANSWERS.items() if soname.startswith(start)), ())
            self._link(soname, symbols, answers, needs=runtime if answers else "")
        self._link(_NVML, {}, ("nvml",))
        linker = f"libnvJitLink.so.{major}"  # cuSPARSE brings it along; bitsandbytes names it
        if linker not in wanted:
            self._link(linker, {}, ())
        self._link(EXIT, {}, _PRELOADED)
        shutil.rmtree(self.sources)

    def _link(
        self, soname: str, symbols: dict[str, str], parts: tuple[str, ...], *, exports: str = "", needs: str = ""
    ) -> None:
        """Link one library of the compiled `parts`, and a stub for each wanted symbol that they lack."""
        have = self._defined(parts)
        stubs = self.sources / f"{soname}.stubs.c"
        lacking = [symbol for symbol in symbols if symbol not in have]
        stubs.write_text(functions.stubs(lacking, functions.of(soname)), encoding="utf-8")
        arguments = ["-shared", *_C, str(stubs), *(str(self.objects[part]) for part in parts)]
        arguments += ["-o", str(self.out / soname), f"-Wl,-soname,{soname}", "-ldl", "-lpthread"]
        if needs:
            arguments += [f"-L{self.out}", "-Wl,--no-as-needed", f"-l:{needs}", "-Wl,-rpath,$ORIGIN"]
        script = _version_script(soname, symbols, exports)
        if script:
            file = self.sources / f"{soname}.map"
            file.write_text(script, encoding="utf-8")
            arguments.append(f"-Wl,--version-script={file}")
        self._cc(*arguments)

    def _defined(self, parts: tuple[str, ...]) -> set[str]:
        """Return the functions that compiled parts define."""
        table = "".join(wheel.readelf("--syms", self.objects[part]) for part in parts)
        rows = (line.split() for line in table.splitlines())
        return {r[7] for r in rows if len(r) == 8 and r[3] == "FUNC" and r[4] == "GLOBAL" and r[6] != "UND"}

    def _cc(self, *arguments: str) -> None:
        run = subprocess.run([self.cc, *arguments], check=False, capture_output=True, text=True)  # noqa: S603
        if run.returncode:
            raise PhantomError(f"{self.cc} cannot compile the phantom GPU: {compilers.first_error(run.stderr)}")


def _with_known(soname: str, symbols: dict[str, str]) -> dict[str, str]:
    """Return the symbols that torch or an extension may need of a library: symbol → version, as torch has them."""
    versions = set(symbols.values()) or {soname}
    return dict.fromkeys(functions.of(soname), max(versions)) | symbols


def _version_script(soname: str, symbols: dict[str, str], exports: str) -> str:
    """Return the linker's version script, with each symbol in the version that torch was linked against."""
    if exports:
        return f"{soname} {{ global: {exports} local: *; }};\n"
    versions: dict[str, list[str]] = {}
    for symbol, version in symbols.items():
        if version:
            versions.setdefault(version, []).append(symbol)
    return "".join(f"{v} {{ global: {' '.join(f'{s};' for s in names)} }};\n" for v, names in versions.items())
