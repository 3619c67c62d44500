"""The parts of a self-contained page: no file, script or font beside it, light and dark, wide and narrow."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from maxmargin.data.rows import Array
from maxmargin.displays.style import COLOURS

STYLE = """
.maxmargin-report{font:16px/1.5 system-ui,sans-serif;max-width:52rem;margin:0 auto;padding:1rem;color-scheme:light dark}
.maxmargin-report h1{font-size:1.6rem;margin:.2rem 0}
.maxmargin-report h2{font-size:1.15rem;margin:1.8rem 0 .4rem}
.maxmargin-report p{margin:.4rem 0}
.maxmargin-report .scroll{overflow-x:auto;margin:.6rem 0}
.maxmargin-report table{border-collapse:collapse;font-size:.92rem}
.maxmargin-report th,.maxmargin-report td{padding:.2rem .8rem .2rem 0;text-align:left;vertical-align:top;font-weight:normal;
 border-bottom:1px solid #8884}
.maxmargin-report th{opacity:.75}
.maxmargin-report td{font-variant-numeric:tabular-nums}
.maxmargin-report .numbers th,.maxmargin-report .numbers td{white-space:nowrap}
.maxmargin-report b{font-weight:650}
.maxmargin-report .verdict{border-left:.35rem solid var(--verdict);padding:.2rem 0 .2rem .9rem;margin:.8rem 0}
.maxmargin-report svg{max-width:100%;height:auto}
.maxmargin-report .bar{display:inline-block;height:.7rem;background:#0072B2;border-radius:2px;vertical-align:baseline}
.maxmargin-report details{margin:.4rem 0}
"""
PAGE_STYLE = """
body{margin:0;background:#fff;color:#1b1b1b}
@media(prefers-color-scheme:dark){body{background:#16181c;color:#e6e6e6}}
"""
GOOD, BAD = COLOURS[2], COLOURS[1]
TEXT_COLOUR = "#010203"
"""Pictures are drawn with this colour for all text and frames; in the page it becomes that of the text around them."""


def whole_page(title: str, body: str) -> str:
    """A document that a browser opens by itself."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<link rel="icon" href="data:,">'
        f"<title>{escape(title)}</title><style>{PAGE_STYLE}</style></head>\n<body>{body}</body></html>\n"
    )


def section(heading: str, *parts: str) -> str:
    return f"<h2>{escape(heading)}</h2>\n" + "\n".join(parts)


def paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def verdict(text: str, *, is_good: bool) -> str:
    return f'<p class="verdict" style="--verdict:{GOOD if is_good else BAD}">{escape(text)}</p>'


def table(rows: Iterable[Sequence[str]], heading: Sequence[str] = (), bold: Iterable[str] = ()) -> str:
    """Rows of text, those in ``bold`` by their first cell set off."""
    marked = set(bold)
    head = "<tr>" + "".join(f"<th>{escape(cell)}</th>" for cell in heading) + "</tr>" if heading else ""
    lines = []
    for name, *cells in rows:
        strong = ("<b>", "</b>") if name in marked else ("", "")
        inside = "".join(f"<td>{strong[0]}{escape(cell)}{strong[1]}</td>" for cell in cells)
        lines.append(f"<tr><th>{strong[0]}{escape(name)}{strong[1]}</th>{inside}</tr>")
    kind = ' class="numbers"' if heading else ""
    return f'<div class="scroll"><table{kind}>{head}{"".join(lines)}</table></div>'


def bars(names: Sequence[str], counts: Sequence[int]) -> str:
    """A bar for each count, with its share of the sum."""
    total, greatest = max(1, sum(counts)), max(1, *counts)
    lines = [
        f"<tr><th>{escape(name)}</th><td>{count:,}</td><td>{100.0 * count / total:.1f}%</td>"
        f'<td><span class="bar" style="width:{12.0 * count / greatest:.2f}rem"></span></td></tr>'
        for name, count in zip(names, counts, strict=True)
    ]
    return f'<div class="scroll"><table>{"".join(lines)}</table></div>'


def confusion_table(names: Sequence[str], counts: Array) -> str:
    """True classes in rows, predicted ones in columns."""
    rows = [(name, *(f"{count:,}" for count in line)) for name, line in zip(names, counts.tolist(), strict=True)]
    return table(rows, heading=("true \\ predicted", *names))


def details(summary: str, inside: str) -> str:
    return f"<details><summary>{escape(summary)}</summary>{inside}</details>"


def picture(draw: Any, width: float = 7.0, height: float = 3.6) -> str:
    """What ``draw(ax)`` draws, as an SVG that takes its text colour from the page."""
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    names = ("text.color", "axes.edgecolor", "axes.labelcolor", "axes.titlecolor", "xtick.color", "ytick.color")
    settings: Any = {**dict.fromkeys(names, TEXT_COLOUR), "svg.hashsalt": "maxmargin", "svg.fonttype": "path"}
    with mpl.rc_context(settings):
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasSVG(figure)
        draw(figure.subplots())
        file = io.StringIO()
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    text = file.getvalue()
    return text[text.index("<svg") :].replace(TEXT_COLOUR, "currentColor")
