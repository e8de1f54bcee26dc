"""Record without a CUDA build of PyTorch, with fake tensors, which have a size and no data.

The fallback where the phantom GPU does not work. `variables` prepares a child process, in which FakeDevice
(fake_tensors.py) is the device of the program. APPROXIMATIONS lists how the result differs from that on a GPU.

Importing this module imports no torch.
"""

import ctypes
import hashlib
import os
import subprocess
import tempfile
from importlib import resources
from pathlib import Path

from coopsim.observe.errors import CaptureError
from coopsim.phantom import compilers
from coopsim.phantom.build import cache_folder
from coopsim.phantom.wheel import find_any

_GUARD = "COOPSIM_FAKE_GUARD"

#: How a recording with fake tensors differs from one on a GPU, for the header of its traces.
APPROXIMATIONS = (
    "no allocator: temporaries inside ops and workspaces are not known, nor bytes allocated and reserved",
    "scaled_dot_product_attention is taken apart into products and a softmax: more and larger tensors",
    "cuDNN's recurrent layers are taken apart into cells",
    "optimizers go tensor by tensor unless foreach=True is given",
    "values read from the device are 0, from the host 1, and ops whose sizes depend on data fail",
)


def variables() -> dict[str, str]:
    """Compile the guard for the installed torch, once (some seconds), and return variables for the child's environment.

    Raises CaptureError if torch is a CUDA build, or the guard cannot be compiled; PhantomError if there is no torch or
    this is not Linux.
    """
    torch = find_any()
    if torch.cuda:
        raise CaptureError(f"torch {torch.version} is a CUDA build: record without --device, on the phantom GPU")
    source = resources.files("coopsim.capture").joinpath("guard.cpp").read_text(encoding="utf-8")
    compiler = compilers.find("CXX")
    if compiler is None:
        raise CaptureError(f"{compilers.missing('CXX')}; install one, as in: apt install g++")
    key = hashlib.blake2b(f"{source}{torch.version}{torch.folder}{compiler}".encode(), digest_size=8).hexdigest()
    library = cache_folder() / f"fake-{key}.so"
    if not library.exists():
        library.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=library.parent) as scratch:
            file, out = Path(scratch, "guard.cpp"), Path(scratch, "guard.so")
            file.write_text(source, encoding="utf-8")
            options = ["-O1", "-w", "-shared", "-fPIC", "-std=c++20", "-D_GLIBCXX_USE_CXX11_ABI=1"]
            paths = [f"-I{torch.folder / 'include'}", f"-L{torch.libraries}", f"-Wl,-rpath,{torch.libraries}"]
            command = [compiler, *options, *paths, str(file), "-o", str(out), "-lc10", "-ltorch_cpu"]
            run = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603
            if run.returncode:
                first = compilers.first_error(run.stderr)
                raise CaptureError(f"{compiler} cannot compile the guard of fake tensors: {first}")
            out.rename(library)
    return {_GUARD: str(library)}


def load_guard() -> None:
    """Load the guard in the child. To be called before torch is imported, which checks once whether there is CUDA."""
    ctypes.CDLL(os.environ[_GUARD])
