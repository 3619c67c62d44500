"""The built site: every link and picture is there, and a browser has nothing to complain about.

``make docs`` builds the site and runs this file. Where the site is not built, there is nothing to test."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from tests.browser import console_errors, needs_chromium

SITE = Path(__file__).resolve().parent.parent / "docs" / "_build" / "html"
PAGES = sorted(path for path in SITE.rglob("*.html") if "_static" not in path.parts)
SHOWN = ["index.html", "start.html", "auto_examples/index.html", "api/generated/maxmargin.LinearSVC.html", "certificate.html"]
LANDING_WORDS = 120

pytestmark = pytest.mark.skipif(not PAGES, reason="the site is not built: make docs")


class Page(HTMLParser):
    """What a page links to, what it shows, and the places in it that can be linked to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.needs: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.anchors |= {values[name] for name in ("id", "name") if values.get(name)}
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        for name in ("src", "href") if tag in ("img", "script", "link", "source") else ():
            if values.get(name) and values.get("rel") != "canonical":
                self.needs.append(values[name])


@pytest.fixture(scope="module")
def pages():
    return {path: Page(path) for path in PAGES}


def is_local(address: str) -> bool:
    parts = urlsplit(address)
    return not parts.scheme and not parts.netloc


def target_of(path: Path, address: str) -> Path:
    parts = urlsplit(address)
    return (path.parent / unquote(parts.path)).resolve() if parts.path else path


def test_every_link_inside_the_site_leads_somewhere(pages):
    broken = []
    for path, page in pages.items():
        for address in filter(is_local, page.links):
            target, fragment = target_of(path, address), unquote(urlsplit(address).fragment)
            if target.is_dir():
                target = target / "index.html"
            if not target.exists() or (fragment and target in pages and fragment not in pages[target].anchors):
                broken.append(f"{path.relative_to(SITE)}: {address}")
    assert broken == []


def test_every_picture_script_and_style_is_part_of_the_site(pages):
    missing = [
        f"{path.relative_to(SITE)}: {address}"
        for path, page in pages.items()
        for address in page.needs
        if not address.startswith("data:") and not (is_local(address) and target_of(path, address).exists())
    ]
    assert missing == []


def test_links_that_leave_the_site_go_to_the_project_or_to_known_places(pages):
    hosts = {urlsplit(address).netloc for page in pages.values() for address in page.links if not is_local(address)}
    known = {
        "github.com",
        "maxmargin.github.io",
        "scikit-learn.org",
        "pydata-sphinx-theme.readthedocs.io",
        "sphinx-gallery.github.io",
    }
    known |= {"numpydoc.readthedocs.io", "www.sphinx-doc.org"}
    assert hosts - {""} <= known


def test_the_landing_page_explains_a_certificate_in_at_most_120_words():
    html = (SITE / "index.html").read_text(encoding="utf-8")
    section = html[html.index('id="what-a-certificate-proves"') : html.index('class="highlight-python')]
    words = re.sub(r"<[^>]+>", " ", section.partition(">")[2]).replace("#", " ").split()
    assert 60 < len(words) <= LANDING_WORDS


def test_every_example_of_the_gallery_has_a_picture():
    examples = sorted((SITE / "auto_examples").glob("plot_*.html"))
    assert len(examples) >= 12
    for path in examples:
        assert "sphx_glr_plot_" in " ".join(Page(path).needs), path.name


@needs_chromium
@pytest.mark.parametrize("name", SHOWN)
def test_a_browser_has_nothing_to_complain_about(name, tmp_path):
    assert console_errors((SITE / name).as_uri(), tmp_path, "--allow-file-access-from-files") == []
