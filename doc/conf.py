"""How Sphinx builds the documents (``make docs``): HTML, and man pages from the same source."""

import logging
import pathlib
import sys

ROOT = pathlib.Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from placement_core.cli.main import get_version  # noqa: E402

project = "placement_core"
author = "the authors of placement_core"
version = release = get_version()

extensions = [
    "cliff.sphinxext",
    "myst_parser",
    "oslo_config.sphinxext",
    "oslo_policy.sphinxext",
    "reno.sphinxext",
    "sphinx_copybutton",
    "doc.extensions.commands",
    "doc.extensions.links",
    "doc.extensions.operations",
    "doc.extensions.plugin_packages",
    "doc.extensions.rooms",
]
myst_heading_anchors = 3

# A package of the theme logs everything to stderr; both of these tell each step.
for name in ("alembic", "reno"):
    logging.getLogger(name).setLevel(logging.WARNING)

highlight_language = "none"
# A quotation mark in a command is one.
smartquotes = False
suppress_warnings = [
    # Pygments does not know strings of several lines in a console; it shows them all the same.
    "misc.highlighting_failure",
]

autoprogram_cliff_app_dist_name = "placement-core"
# Every command has these options; the page of the commands describes them once.
autoprogram_cliff_ignored = [
    "--help", "--config-file", "--config-dir", "--quote", "--noindent", "--max-width",
    "--fit-width", "--print-empty", "--sort-column", "--sort-ascending", "--sort-descending",
    "--prefix", "--variable",
]

html_theme = "furo"
html_title = "placement_core"
html_static_path = ["static"]
html_css_files = ["documents.css"]
html_copy_source = False
html_show_copyright = False
html_theme_options = {"navigation_with_keys": True}

copybutton_prompt_text = r"\$ |> "
copybutton_prompt_is_regexp = True
copybutton_line_continuation_character = "\\"

man_pages = [
    ("reference/cli", "placement-core", "commands of the capacity service", author, 1),
    ("reference/configuration", "placement.conf", "options of the capacity service", author, 5),
    ("reference/policy", "placement-policy.yaml", "policy rules of the capacity service", author,
     5),
]
