"""nu-SVR with any kernel by regressions with a given tube, against SMO and against the regression that it equals."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_linnerud

from maxmargin import SVR, NuSVR, Status
from maxmargin.certificate.kernel import certify_kernel
from maxmargin.certificate.nu_pair import with_tube
from maxmargin.problem.kernels import RBF, Polynomial
from maxmargin.problem.nu import nu_svr
from maxmargin.solvers.kernel.nu_smo import NuSMO
from maxmargin.solving.driver import Limits, Stop, drive
from maxmargin.solving.nu_tube import KernelSearch, has_small_targets, solve_nu_svr_tube
from tests.solving.test_nu_pair import SHARES, TOL, plain


@pytest.mark.parametrize("nu", SHARES)
@pytest.mark.parametrize("kernel", [RBF(0.3), Polynomial(0.3, 1.0, 2)])
def test_the_tubes_lead_to_the_answer_of_smo_where_both_get_there(nu, kernel):
    X, y = plain()
    problem = nu_svr(X, y, kernel, nu, 1.0)
    first = drive(problem, NuSMO(), Limits(TOL), warm_start=None, callback=None, seed=0, stop=Stop.after(60.0))
    found = solve_nu_svr_tube(problem, first, Limits(TOL), Stop.after(60.0))
    assert first.status is found.status is Status.CERTIFIED
    assert found.certificate.primal == pytest.approx(first.certificate.primal, rel=3.0 * TOL)
    assert abs(found.b - first.b) <= found.offset_bound + first.offset_bound
    outputs = [problem.samples.held.values @ problem.coefficients(each.alpha) for each in (first, found)]
    reach = found.certificate.distance_bound + first.certificate.distance_bound
    lengths = np.sqrt(problem.samples.diagonal)
    assert np.all(np.abs(outputs[0] - outputs[1]) <= reach * lengths)


@pytest.mark.parametrize("size", [1e-9, 1e-6])
def test_targets_that_are_small_beside_C_are_certified_and_equal_the_regression_without_a_tube(size):
    X, y = plain(150)
    ours, peer = NuSVR().fit(X, size * y), SVR(epsilon=0.0, C=1.0 / size).fit(X, y)
    assert ours.status_ is peer.status_ is Status.CERTIFIED
    proved, other = ours.certified_predict(X), peer.certified_predict(X)
    assert np.all(np.abs(proved.values / size - other.values) <= proved.radius / size + other.radius)
    assert 0.0 <= ours.epsilon_ <= 1e-4 * size


def test_targets_of_common_size_are_not_small():
    X, y = plain(60)
    assert not has_small_targets(nu_svr(X, y, RBF(0.3), 0.5, 1.0), 1e-3)
    assert has_small_targets(nu_svr(X, 1e-6 * y, RBF(0.3), 0.5, 1.0), 1e-3)


def test_a_polynomial_of_raw_columns_is_certified():
    data = load_linnerud()
    model = NuSVR(kernel="poly", gamma="auto", nu=0.9).fit(data.data, data.target[:, 1])
    assert model.status_ is Status.CERTIFIED


def test_what_the_sizes_lack_of_their_sum_costs_as_much_as_the_tube_is_wide():
    X, y = plain(50)
    problem = nu_svr(X, y, RBF(0.3), 0.5, 1.0)
    search = KernelSearch(problem, Limits(1e-9), Stop.after(60.0))
    tube = search.solved(0.4, None)
    own = certify_kernel(search.kernel(0.4), tube.beta).certificate
    found = with_tube(own, 0.4, search.total, tube.beta)
    lacking = search.total - tube.size
    assert lacking > 0.0
    assert found.gap == pytest.approx(0.4 * lacking, rel=1e-6)
    assert found.primal - found.dual == pytest.approx(found.gap, rel=1e-6)
    assert not np.isfinite(with_tube(own, 0.4, 0.5 * tube.size, tube.beta).gap)
