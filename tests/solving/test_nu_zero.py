"""nu-SVC where w = 0 is optimal, on raw columns."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from maxmargin import NuSVC
from maxmargin.data.limits import Stop
from maxmargin.problem.kernels import Linear
from maxmargin.problem.nu import nu_svc
from maxmargin.solvers.kernel.nu_smo import NuSMO
from maxmargin.solving.nu_zero import zero_answer
from maxmargin.solving.unsolved import unsolved_nu

SCALES = 10.0 ** np.array([18.0, 12.0, 9.0, 6.0, 3.0, 0.0, 0.0, 0.0, -3.0, -5.0])


def mingled(n=200, share=0.5, seed=0):
    """Two classes that have nothing to do with the columns, which are of all sizes and far from zero."""
    rng = np.random.default_rng(seed)
    return (1.6 + 0.01 * rng.normal(size=(n, len(SCALES)))) * SCALES, np.where(rng.random(n) < share, 1, -1)


def zero_of(X, y, nu):
    problem = nu_svc(X, y, Linear(), nu)
    return zero_answer(problem, X, unsolved_nu(problem.n_samples, 2, NuSMO(), Stop()))


@pytest.mark.parametrize("seed", range(4))
def test_hulls_that_overlap_have_the_value_zero_whatever_the_scales_of_the_columns(seed):
    X, y = mingled(seed=seed)
    found = zero_of(X, y, 0.5)
    certificate = found.certificate
    assert (certificate.primal, certificate.dual, certificate.gap, certificate.distance_bound) == (0.0, 0.0, 0.0, 0.0)
    assert not found.feature_weights.any()


def test_every_weight_of_such_an_alpha_is_zero_beside_its_terms_in_exact_arithmetic():
    X, y = mingled()
    alpha = [Fraction(float(a)) for a in zero_of(X, y, 0.5).alpha]
    for column in X.T:
        terms = [a * int(k) * Fraction(float(x)) for a, k, x in zip(alpha, y, column, strict=True)]
        assert abs(sum(terms)) <= 2.0**-30 * sum(map(abs, terms))


@pytest.mark.parametrize("column", [0, 5, 9])
def test_one_column_that_tells_the_classes_apart_is_no_zero(column):
    X, y = mingled()
    X[:, column] += 0.2 * SCALES[column] * (y > 0)
    assert zero_of(X, y, 0.1) is None


def test_a_class_whose_alpha_is_fixed_may_have_its_mean_among_the_others():
    X, y = mingled(share=0.05)
    nu = 2.0 * np.mean(y > 0)
    found = zero_of(X, y, nu)
    assert found.certificate.gap == 0.0
    np.testing.assert_array_equal(found.alpha[y > 0], 1.0)


@pytest.mark.parametrize("seed", range(3))
def test_a_linear_nu_svc_on_such_columns_is_certified(seed):
    X, y = mingled(150, seed=seed)
    model = NuSVC(kernel="linear", nu=0.6).fit(X, y)
    assert model.status_.name == "CERTIFIED"
    assert model.relative_gap_ == 0.0
