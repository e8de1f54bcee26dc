"""The documentation as a site: `make docs`. The pages are Markdown, and can be read where they are, too."""

import importlib
import re
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE / "_ext")]

from coopsim import __version__  # noqa: E402

shutil.rmtree(HERE / "notebooks", ignore_errors=True)  # the site's copy: Sphinx knows only pages below its folder
shutil.copytree(
    HERE.parent / "notebooks", HERE / "notebooks", ignore=shutil.ignore_patterns("out", "*.py", "__pycache__")
)

# autodoc would import them a second time as type checkers read them, which takes what is defined at run time away.
for module in re.findall(r"automodule:: (\S+)", (HERE / "reference" / "python.md").read_text(encoding="utf-8")):
    importlib.import_module(module)

project, release = "coopsim", __version__
author = "the authors of coopsim"
html_show_copyright = False
smartquotes = False  # `--` is an option, not a dash
extensions = ["myst_nb", "sphinx.ext.autodoc", "cli_reference", "from_elsewhere"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "coopsim"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
highlight_language = "none"
pygments_style = "friendly"
myst_heading_anchors = 3
nb_execution_mode = "off"  # notebooks are committed as executed; the tests execute them again
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
