"""How Sphinx builds these pages: `make docs`."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from hf_albert_plus import __version__  # noqa: E402

project = "hf-albert-plus"
author = "the authors of hf-albert-plus"
project_copyright = f"{author}, Apache-2.0"
version = release = __version__

extensions = ["myst_parser", "reference"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
myst_heading_anchors = 4

html_theme = "furo"
html_title = "hf-albert-plus"
html_static_path = ["_static"]
html_css_files = ["wide.css"]
html_show_sourcelink = False
