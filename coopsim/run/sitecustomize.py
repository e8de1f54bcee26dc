"""Runs at the start of every Python that `coopsim phantom run` starts: its folder comes first on PYTHONPATH.

It runs the sitecustomize that it hides, and then calls coopsim.
"""

import importlib.machinery
import importlib.util
import os
import sys

sys.path[:] = [folder for folder in sys.path if folder != os.path.dirname(os.path.abspath(__file__))]
_hidden = importlib.machinery.PathFinder.find_spec("sitecustomize")
if _hidden is not None and _hidden.loader is not None:
    _hidden.loader.exec_module(importlib.util.module_from_spec(_hidden))

try:
    from coopsim.run.launch import inside
except ImportError as error:
    _folder = os.environ.get("COOPSIM_SCRIPT_FOLDER", "")
    if os.path.isdir(_folder):
        with open(os.path.join(_folder, "foreign"), "w") as _file:
            _file.write(f"{sys.executable} cannot import coopsim ({error}): install it there, beside torch")
else:
    inside.install()
