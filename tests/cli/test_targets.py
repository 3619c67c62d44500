"""Labels that look like something else than classes are remarked on."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from maxmargin.cli.data import remarks_on_target, shown
from maxmargin.io import write_svmlight
from tests.catalogue import labelled

ABALONE = [1, 1, 15, 57, 115, 259, 391, 568, 689, 634, 487, 267, 203, 126, 103, 67, 58, 42, 32, 26, 14, 6, 9, 2, 1, 1, 2, 1]
"""How many of abalone's shells have 1, 2, ... rings."""


def test_the_rings_of_abalone_look_like_a_regression_target():
    y = np.repeat(np.arange(1.0, 29.0), ABALONE)
    assert remarks_on_target(Path("abalone"), y) == (
        "abalone: the labels have 28 distinct values, most of them rare: is this a regression target?",
    )


@pytest.mark.parametrize(
    "y",
    [
        np.repeat(np.arange(26.0), 500),
        np.repeat(np.arange(1000.0), 5),
        np.repeat([-1.0, 1.0], [1000, 1]),
        np.repeat(np.arange(10.0), [1] * 9 + [1000]),
        np.array(list("abcdefghijklmnopqrstuvwxyz")),
    ],
)
def test_classes_are_not_remarked_on(y):
    assert remarks_on_target(Path("data"), y) == ()


def test_whole_numbers_that_hardly_repeat_look_like_a_regression_target():
    y = np.random.default_rng(0).integers(0, 10**6, 300).astype(float)
    assert len(remarks_on_target(Path("salaries"), y)) == 1


def test_the_remark_is_a_warning_and_the_fit_goes_on(run, tmp_path):
    X, _ = labelled(60, 3, 0.7, 0)
    write_svmlight(X, np.round(20 * X[:, 0]), tmp_path / "data")
    code, out, err = run("train", "data", "--json")
    assert code == 0
    assert err.endswith("most of them rare: is this a regression target?\n")
    assert json.loads(out)["warnings"] == [err.removeprefix("maxmargin: ").strip()]
    assert run("train", "data", "-q") == (0, "", "")


def test_query_ids_are_a_reason_to_ask(run, tmp_path):
    (tmp_path / "ranking").write_text("1 qid:1 1:0.5\n2 qid:1 1:1\n1 qid:2 1:0.2\n2 1:3\n")
    code, _, err = run("train", "ranking")
    assert code == 0
    expected = "3 of 4 samples have a query id (qid:), which a classifier does not use: is this a file for ranking?"
    assert err == f"maxmargin: ranking: {expected}\n"


def test_a_fraction_is_named_with_its_line(run, tmp_path):
    (tmp_path / "prices").write_text("# prices\n24 1:1\n21.6 1:2\n34.7 1:3\n")
    assert run("train", "prices") == (
        2,
        "",
        "maxmargin: prices, line 3: the label 21.6 is no class, which is a whole number or a word; the labels have 3 distinct "
        "values (is this a regression target?).\n",
    )


def test_a_label_is_shown_as_it_stands_in_the_file():
    assert [shown(np.float64(1.0)), shown(np.str_("good")), shown(np.int64(-3)), shown(0.5)] == ["1", "good", "-3", "0.5"]
