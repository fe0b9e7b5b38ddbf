"""Configuration of the documentation site: see `make docs`."""

import re
import shutil
from pathlib import Path

from crossview import __version__

HERE = Path(__file__).parent
COPIED = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changes.md"}

project = "crossview"
author = "The crossview developers"
copyright = author
version = release = __version__
language = "en_GB"

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "sphinx-mathjax-offline",
]
exclude_patterns = ["gallery/*.ipynb", "gallery/*.py", "gallery/*.zip", "gallery/*.json"]
suppress_warnings = ["config.cache"]  # the gallery's settings hold objects

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"  # the docstrings say more
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
templates_path = ["_templates"]

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": "/plot_",
    "ignore_pattern": r"(__init__|from_data_to_decision)\.py",
    "backreferences_dir": "gallery/uses",
    "doc_module": ("crossview",),
    "reference_url": {"crossview": None},
    "remove_config_comments": True,
    "download_all_examples": False,
    "show_memory": False,
    "write_computation_times": False,
    "within_subsection_order": "FileNameSortKey",
}

html_theme = "pydata_sphinx_theme"
html_title = f"crossview {version}"
html_context = {"default_mode": "auto"}
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "crossview"},
    "show_prev_next": True,
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
    "navigation_with_keys": False,
}
html_sidebars = {"index": []}


def setup(app):
    """Connect what Sphinx has no setting for."""
    app.connect("config-inited", _copy_pages)
    app.connect("source-read", _mend_links)
    app.connect("autodoc-skip-member", _skip_inherited)


def _copy_pages(app, config):
    """Copy the pages that are kept elsewhere in the repository."""
    pages = {HERE.parent / source: HERE / page for source, page in COPIED.items()}
    pages |= {
        page: HERE / "benchmarks" / page.name
        for page in (HERE.parent / "benchmarks").glob("*.md")
    }
    for source, page in pages.items():
        page.parent.mkdir(exist_ok=True)
        if not page.exists() or source.read_bytes() != page.read_bytes():
            shutil.copy(source, page)


def _mend_links(app, name, source):
    """Lead links to those pages to their copies."""
    source[0] = source[0].replace("../benchmarks/", "benchmarks/").replace("../docs/", "../")
    source[0] = source[0].replace("../CHANGELOG.md", "changes.md").replace("](docs/", "](")
    source[0] = re.sub(r"\.\./examples/(plot_\w+)\.py", r"gallery/\1.rst", source[0])


def _skip_inherited(app, what, name, member, skip, options):
    """Leave out what scikit-learn documents."""
    return skip or str(getattr(member, "__module__", "")).startswith("sklearn")
