"""L1 and elastic-net penalties where Newton's method is slow: smaller C come first."""

from __future__ import annotations

import pytest

from maxmargin import LinearSVC
from tests import raw_catalogue


@pytest.mark.parametrize(
    ("name", "C", "settings"),
    [("collinear", 100.0, {"penalty": "elasticnet", "l1_ratio": 0.5}), ("wine", 1e6, {"penalty": "l1"})],
)
def test_a_slow_fit_ends_by_way_of_smaller_values_of_C(name, C, settings):
    X, y = raw_catalogue.table(name, 300).thinned(300)
    model = LinearSVC(C=C, penalize_intercept=False, max_iter=3000, **settings).fit(X, y)
    assert model.relative_gap_ <= model.tol
