"""How the site is built: ``make docs``. Nothing is fetched, and a warning is an error."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE))

import certificate_picture  # noqa: E402
import sparse_path_picture  # noqa: E402

import maxmargin  # noqa: E402

REPOSITORY = "https://github.com/maxmargin/maxmargin"

project = "maxmargin"
author = "The maxmargin developers"
copyright = "The maxmargin developers, BSD 3-Clause"
release = version = maxmargin.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
    "sphinx_design",
    "sphinx_copybutton",
    "sphinx-mathjax-offline",
]
exclude_patterns = ["_build", "api/examples", "auto_examples/**/*.ipynb", "auto_examples/**/*.py", "auto_examples/**/*.md5"]
templates_path = ["_templates"]
suppress_warnings = ["config.cache"]  # the gallery's sorting key is a function, which Sphinx cannot pickle

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
autodoc_docstring_signature = False
autosummary_generate = True
autosummary_imported_members = True
autosummary_context = {"examples": sorted(path.stem for path in (HERE / "api" / "examples").glob("*.rst"))}
autodoc_typehints = "none"
numpydoc_show_class_members = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
copybutton_only_copy_prompt_lines = True

sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"/plot_",
    "doc_module": ("maxmargin",),
    "backreferences_dir": "api/backreferences",
    "plot_gallery": "True",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "remove_config_comments": True,
    "min_reported_time": 1000,
    "write_computation_times": False,
    "matplotlib_animations": False,
    "within_subsection_order": "FileNameSortKey",
    "image_srcset": ["2x"],
    "capture_repr": ("_repr_html_",),
}

html_theme = "pydata_sphinx_theme"
html_title = "maxmargin"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_sidebars = {"index": [], "start": [], "changelog": []}
html_context = {"default_mode": "auto"}
html_theme_options = {
    "github_url": REPOSITORY,
    "show_toc_level": 2,
    "navbar_persistent": ["search-button"],
    "navigation_with_keys": False,
    "secondary_sidebar_items": {"**": ["page-toc"], "index": []},
    "footer_start": ["copyright"],
    "footer_end": [],
    "header_links_before_dropdown": 7,
}

ABOVE_DOCS = re.compile(r"\]\((?:\.\./)+(?!docs/)(?P<path>[^)#]+)")
BELOW_ROOT = re.compile(r"\]\((?P<path>(?:docs|benchmarks|src|examples|fuzz)/[^)#]*|[A-Z]+\.(?:md|cff))")


def address(path: str, page: str) -> str:
    """Where a file of the repository is on the site, seen from a page, or on the web if it is not on the site."""
    up = "../" * page.count("/")
    if path.startswith("benchmarks/results/"):
        return f"]({up}{path}"
    if path.startswith("docs/"):
        return f"]({up}{path.removeprefix('docs/')}"
    return f"]({REPOSITORY}/blob/main/{path}"


def point_into_the_site(app: object, page: str, source: list[str]) -> None:
    """Pages link to files of the repository, so that they work there too. On the site the links go elsewhere."""
    if page in ("changelog", "contributing"):
        text = (ROOT / f"{page.upper()}.md").read_text()
        source[0] = BELOW_ROOT.sub(lambda found: address(found["path"], page), text)
    elif page.startswith("auto_examples"):
        return
    else:
        is_ours = page.count("/") <= 1
        source[0] = ABOVE_DOCS.sub(lambda found: address(found["path"], page) if is_ours else found[0], source[0])


NOT_PROSE = re.compile(r"(``.*?``|:\w+:`[^`]*`|\.\. math::.*?(?:\n\s*\n|\Z))", re.DOTALL)


def keep_bars(app: object, what: str, name: str, item: object, options: object, lines: list[str]) -> None:
    """Docstrings write |w| for a norm, which reStructuredText would take for a substitution."""
    parts = NOT_PROSE.split("\n".join(lines))
    parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
    lines[:] = "".join(parts).split("\n")


def own_signature(
    app: object, what: str, name: str, item: object, options: object, signature: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """The signature is that of the code: numpydoc would take a docstring that begins with "k(x, x)" for one."""
    return signature, returned


def copy_results() -> None:
    """The tables and pictures of the benchmarks are pages of the site."""
    target = HERE / "benchmarks" / "results"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(ROOT / "benchmarks" / "results", target, ignore=shutil.ignore_patterns("*.json"))


def setup(app: object) -> None:
    app.connect("source-read", point_into_the_site)  # type: ignore[attr-defined]
    app.connect("autodoc-process-docstring", keep_bars)  # type: ignore[attr-defined]
    app.connect("autodoc-process-signature", own_signature, priority=400)  # type: ignore[attr-defined]


copy_results()
certificate_picture.draw(HERE / "_static")
sparse_path_picture.draw(HERE / "_static")
