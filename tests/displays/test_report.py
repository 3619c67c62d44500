"""The report is one page that holds all it needs, and says what the certificate says."""

from __future__ import annotations

import re
import warnings
from html.parser import HTMLParser

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import ConvergenceWarning

from maxmargin import SVC, Hinge, LinearProblem, LinearSVC, Report, solve
from tests.browser import console_errors, needs_chromium

VOID = {"meta", "link", "br", "path", "use", "rect", "img"}


class Balanced(HTMLParser):
    """Fails where a tag is closed that is not the last one opened."""

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag


def assert_well_formed(html):
    parser = Balanced()
    parser.feed(html)
    parser.close()
    assert not parser.open


@pytest.fixture(scope="module")
def iris():
    return load_iris(return_X_y=True)


@pytest.fixture(scope="module")
def report(iris):
    return SVC(C=3.0).fit(*iris).report(*iris)


def test_the_page_is_well_formed(report):
    assert_well_formed(report.html)
    assert report.html.startswith("<!doctype html>")


def test_the_page_asks_for_nothing_from_elsewhere(report):
    """Whatever it names outside are the names of XML's vocabularies in the picture."""
    addresses = set(re.findall(r'(?:src|href)="([^"]*)"', report.html))
    assert {a for a in addresses if not a.startswith(("#", "data:"))} == set()
    assert "<script" not in report.html
    assert "url(http" not in report.html


def test_the_page_has_every_part(report):
    for heading in ("What is proved", "How the fit went", "Data", "Predictions", "Parameters", "Versions"):
        assert f"<h2>{heading}</h2>" in report.html
    assert "<svg" in report.html
    assert "0 against 1" in report.html
    assert "<b>3.0</b>" in report.html


def test_the_confusion_table_counts_every_sample(iris):
    X, y = iris
    model = LinearSVC().fit(X, y)
    counts = np.zeros((3, 3), int)
    np.add.at(counts, (y, model.predict(X)), 1)
    html = model.report(X, y).html
    table = html[html.index("true \\ predicted") :]
    shown = [int(cell) for cell in re.findall(r"<td>(\d+)</td>", table[: table.index("</table>")])]
    assert shown == counts.ravel().tolist()


def test_a_fit_that_ended_early_is_called_uncertified():
    X, y = load_breast_cancer(return_X_y=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LinearSVC(loss="hinge", solver="dcd", max_iter=1, tol=1e-12).fit(X, y)
    html = model.report().html
    assert "Not certified: The limit on epochs was reached before tol." in html
    assert "<h2>Predictions</h2>" not in html


def test_sparse_data_is_summarised(iris):
    X = sparse.csr_matrix(iris[0])
    assert "sparse, 600 stored values (100%)" in LinearSVC().fit(X, iris[1]).report(X).html


def test_names_of_classes_cannot_put_markup_into_the_page(iris):
    X, y = iris
    names = np.array(["<script>alert(1)</script>", "b&c", '"d"'])[y]
    html = SVC().fit(X, names).report(X, names).html
    assert "<script>" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert_well_formed(html)


def test_the_page_is_written_to_a_file(report, tmp_path):
    path = report.save(tmp_path / "page.html")
    assert path.read_text(encoding="utf-8") == report.html
    assert report._repr_html_() in report.html
    assert "characters of HTML" in repr(report)


def test_a_model_that_is_not_fitted_has_no_report():
    with pytest.raises(ValueError, match="LinearSVC has no certificate"):
        Report.from_estimator(LinearSVC())


@needs_chromium
def test_a_browser_shows_the_page_without_complaint(report, tmp_path):
    assert console_errors(report.save(tmp_path / "page.html").as_uri(), tmp_path) == []


@needs_chromium
def test_a_page_that_complains_is_found_out(tmp_path):
    page = tmp_path / "page.html"
    page.write_text("<html><body><script>console.error('first'); second();</script></body></html>")
    first, second = console_errors(page.as_uri(), tmp_path)
    assert "first" in first
    assert "second is not defined" in second


def test_a_certificate_and_a_solution_show_themselves_in_a_notebook():
    X, y = load_breast_cancer(return_X_y=True)
    problem = LinearProblem.build(X, np.where(y, 1, -1), 1.0, Hinge(), intercept_scaling=1.0)
    solution = solve(problem, tol=1e-6)
    html = solution._repr_html_()
    assert_well_formed(html)
    assert solution.certificate._repr_html_() in html
    assert f"{solution.certificate.dual:.10g}" in html
    assert "no model of this training problem has one below" in html
    assert str(solution).startswith("CERTIFIED after ")


def test_reprs_are_short_enough_for_a_table(iris):
    model = LinearSVC().fit(*iris)
    assert all(len(repr(certificate)) < 80 for certificate in model.certificate_)
    assert repr(model.status_[0]) == "Status.CERTIFIED"


def test_what_is_no_proof_is_not_called_one():
    X = np.array([[0.0], [1.0], [2.0], [3.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = SVC(kernel="sigmoid", coef0=1.0).fit(X, [0, 1, 0, 1])
    assert "proves no bound on the optimum" in model.report().html
