"""The cost model of the linear solvers. ``auto`` compares methods by it.

``python -m benchmarks.calibrate`` measures the machine-dependent values again and prints them beside these. Only their ratios
matter. The same values serve every machine, so that the answer to a call does not depend on the machine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxmargin.data.threads import threads_for
from maxmargin.problem.linear import LinearProblem
from maxmargin.solvers.linear.newton.direction_costs import begins_with_products
from maxmargin.solvers.linear.newton.frame import is_rotated
from maxmargin.solvers.linear.newton.policy import DirectionPolicy


@dataclass(frozen=True)
class LinearCosts:
    """Estimated nanoseconds on one core. An element is a stored value of X, a weight is an element of w."""

    step_ns: float = 40.0
    """Nanoseconds for a step of dual coordinate descent, without its elements."""
    element_ns: float = 3.0
    """Nanoseconds for each element of the row of such a step, where w stays in the near caches."""
    far_element_ns: float = 6.5
    """The same where w has more than ``cached_weights``."""
    cached_weights: int = 1 << 16
    """Weights that stay in the near caches: half a megabyte of float64."""
    miss_ns: float = 60.0
    """Nanoseconds to fetch a row from memory, where X has more than ``cached_elements`` elements."""
    cached_elements: int = 1 << 20
    """Elements of X that stay in the near caches."""
    newton_step_ns: float = 150_000.0
    """Nanoseconds for a Newton step, without its passes and its direction: the Python around them."""
    pass_element_ns: float = 3.4
    """Nanoseconds for each element of X in the passes of one Newton step, on one core."""
    pass_sample_ns: float = 24.0
    """Nanoseconds for each sample in these passes, line search included, on one core."""
    cholesky_ns: float = DirectionPolicy.cholesky_ns
    """Nanoseconds for each weight cubed: factoring Newton's matrix on one core."""
    product_element_ns: float = DirectionPolicy.product_ns
    """Nanoseconds for each element of X in a product with the Hessian, on one core."""
    products_a_direction: int = 10
    """Products with the Hessian for a direction by conjugate gradients: 3 to 30 on generated one-hot columns."""
    rotation_ns: float = 0.1
    """Nanoseconds for each n^2 d of the QR factorisation that rotates n rows of d weights."""
    call_ns: float = 250_000.0
    """Nanoseconds for a solve in one compiled call, without its steps: the certificate and the Python around both."""
    call_step_ns: float = 5_000.0
    """Nanoseconds for a step of that call, without what follows. It and the next three were fitted to pairs of seven classes
    of six raw tables, with 200 and 1,430 samples and 9 to 61 weights."""
    call_element_ns: float = 1.2
    """Nanoseconds for each element of X in such a step."""
    call_sample_ns: float = 10.0
    """Nanoseconds for each sample in such a step."""
    call_cholesky_ns: float = 0.07
    """Nanoseconds for each weight cubed in such a step, whose factorisation is not LAPACK's."""
    newton_steps: int = 25
    """Newton steps for a loss whose dual is bounded above: hinge and Huber loss."""
    unbounded_newton_steps: int = 10
    """Newton steps for the other losses, which need no proximal term."""

    def descent_step(self, problem: LinearProblem) -> float:
        """Nanoseconds for a step of dual coordinate descent."""
        n, elements = problem.n_samples, problem.rows.n_stored
        an_element = self.element_ns if problem.n_weights <= self.cached_weights else self.far_element_ns
        a_miss = self.miss_ns if elements > self.cached_elements else 0.0
        return self.step_ns + a_miss + an_element * elements / n

    def newton(self, problem: LinearProblem) -> float:
        """Nanoseconds for a whole solve by Newton's method."""
        n, d = problem.n_samples, problem.n_weights
        n_steps = self.newton_steps if np.isfinite(problem.box.U).all() else self.unbounded_newton_steps
        rotation = self.rotation_ns * n * n * d if newton_weights(problem) < d else 0.0
        return n_steps * self.newton_step(problem) + rotation

    def newton_by_size(self, n: int, d: int, n_steps: int) -> float:
        """Nanoseconds for so many Newton steps on n dense rows of d weights, on one core."""
        passes = self.pass_element_ns * n * d + self.pass_sample_ns * n
        return n_steps * (self.newton_step_ns + passes + self.cholesky_ns * min(d, n + 1) ** 3)

    def call_by_size(self, n: int, d: int, n_steps: int) -> float:
        """Nanoseconds for a solve of so many Newton steps in one compiled call, on n dense rows of d weights."""
        passes = self.call_element_ns * n * d + self.call_sample_ns * n
        return self.call_ns + n_steps * (self.call_step_ns + passes + self.call_cholesky_ns * d**3)

    def newton_step(self, problem: LinearProblem) -> float:
        """Nanoseconds for one of its steps."""
        n, elements, d = problem.n_samples, problem.rows.n_stored, problem.n_weights
        passes = (self.pass_element_ns * elements + self.pass_sample_ns * n) / threads_for(elements, 2 * d)
        return self.newton_step_ns + passes + self._direction(problem)

    def _direction(self, problem: LinearProblem) -> float:
        size = newton_weights(problem)
        if size < problem.n_weights or not begins_with_products(problem):
            return self.cholesky_ns * size**3
        return self.products_a_direction * self.product_element_ns * problem.rows.n_stored


def newton_weights(problem: LinearProblem) -> int:
    """The number of rows of Newton's matrix: one for each weight. Where few long rows are rotated, one for each sample and one
    more."""
    return min(problem.n_weights, problem.n_samples + 1) if is_rotated(problem) else problem.n_weights
