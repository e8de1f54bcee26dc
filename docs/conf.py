"""The documentation as a site: `make docs`. The pages are Markdown, and can be read where they are, too."""

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

project, release = "coopsim", __version__
author = "the authors of coopsim"
html_show_copyright = False
smartquotes = False  # `--` is an option, not a dash
extensions = ["myst_nb", "cli_reference", "from_elsewhere"]
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
