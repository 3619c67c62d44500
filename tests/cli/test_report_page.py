"""``maxmargin train --report FILE``: a page about the fit."""

from __future__ import annotations

import pytest

from maxmargin.io import write_svmlight
from tests.catalogue import labelled


@pytest.fixture
def data(tmp_path):
    X, y = labelled(60, 4, 0.7, 0)
    write_svmlight(X, y, tmp_path / "data")
    return "data"


@pytest.mark.parametrize("options", [("-s", 3), ("-t", "rbf", "-g", 0.1)], ids=["linear", "kernel"])
def test_the_page_tells_of_the_fit_and_of_the_data(run, data, tmp_path, options):
    code, out, err = run("train", data, *options, "--report", "page.html")
    assert (code, err) == (0, "")
    assert out.startswith("Certified")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "Certified: within" in page
    assert "<tr><th>samples</th><td>60</td></tr>" in page
    assert "true \\ predicted" in page


def test_a_page_that_cannot_be_written_is_refused_before_the_work(run, data, tmp_path):
    code, _, err = run("train", data, "--report", "nowhere/page.html")
    assert code == 2
    assert "nowhere/page.html" in err
    assert not (tmp_path / "data.model").exists()


def test_the_page_is_not_written_over_the_data_or_the_model(run, data):
    for path in ("data", "data.model"):
        code, _, err = run("train", data, "--report", path)
        assert code == 2
        assert "name another output" in err
