"""The duality gap in rational arithmetic: what a certificate claims, without rounding.

Every float is a whole number over a power of two, and so are sums and products of them: vectors are whole numbers over one
denominator, which is five times as fast as fractions. exp is no rational number: the RBF kernel is enclosed to within
``EXP_ERROR``, far below the rounding of float64.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

from maxmargin.data.rows import Array
from maxmargin.problem.kernel import KernelProblem
from maxmargin.problem.kernels import RBF, Linear, Polynomial, Precomputed
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import Hinge, Huber, LeastSquares, SquaredHinge
from maxmargin.problem.regression_losses import EpsilonInsensitive, Quantile, SquaredEpsilonInsensitive

EXP_BITS = 400
"""Places after the binary point of an exp; some are lost by squaring."""
EXP_ERROR = Fraction(1, 2**150)
"""How far the sums here can be from those with the exact exp."""


class Values(NamedTuple):
    primal: Fraction
    dual: Fraction

    @property
    def gap(self) -> Fraction:
        return self.primal - self.dual

    @property
    def scale(self) -> Fraction:
        return max(abs(self.primal), abs(self.dual))


class Vector(NamedTuple):
    """Whole numbers over a denominator."""

    values: list[int]
    over: int

    @classmethod
    def of(cls, numbers: Array) -> Vector:
        ratios = [value.as_integer_ratio() for value in numbers.tolist()]
        over = max(denominator for _, denominator in ratios)  # all are powers of two
        return cls([value * (over // denominator) for value, denominator in ratios], over)

    def dot(self, other: Vector) -> Fraction:
        return Fraction(sum(a * b for a, b in zip(self.values, other.values, strict=True)), self.over * other.over)

    def times(self, signs: list[int]) -> Vector:
        return Vector([value * sign for value, sign in zip(self.values, signs, strict=True)], self.over)


class Matrix(NamedTuple):
    rows: list[list[int]]
    over: int

    @classmethod
    def of(cls, numbers: Array) -> Matrix:
        flat = Vector.of(numbers.reshape(-1))
        d = numbers.shape[1]
        return cls([flat.values[k : k + d] for k in range(0, len(flat.values), d)], flat.over)

    def product(self, vector: Vector) -> Vector:
        """Zeros are left out: most alphas of small problems are."""
        used = [(j, value) for j, value in enumerate(vector.values) if value]
        return Vector([sum(row[j] * value for j, value in used) for row in self.rows], self.over * vector.over)

    @property
    def transposed(self) -> Matrix:
        return Matrix([list(column) for column in zip(*self.rows, strict=True)], self.over)


def linear_values(problem: LinearProblem, w: Array, alpha: Array) -> Values:
    """P(w) and D(alpha); with a free intercept alpha is balanced first: the class with the greater sum is scaled down."""
    X, weights, signs = _with_intercept(problem), Vector.of(w), problem.y.tolist()
    duals = Vector.of(alpha) if problem.penalizes_intercept else balanced(Vector.of(alpha), signs)
    penalised = Vector(weights.values[: problem.n_penalised], weights.over)
    w_of_alpha = X.transposed.product(duals.times(signs))
    w_of_alpha = Vector(w_of_alpha.values[: problem.n_penalised], w_of_alpha.over)
    margins, costs = X.product(weights).times(signs), Vector.of(problem.C)
    primal = penalised.dot(penalised) / 2 + loss_sum(problem.loss, margins, costs)
    return Values(primal, dual_sum(problem.loss, duals, costs) - w_of_alpha.dot(w_of_alpha) / 2)


def kernel_values(problem: KernelProblem, K: Matrix, alpha: Array, b: float) -> Values:
    """P(w(alpha), b) and D of alpha, balanced where there is an offset. ``K`` is the exact kernel matrix."""
    signs, duals, costs = problem.y.tolist(), Vector.of(alpha), Vector.of(problem.C)
    signed = duals.times(signs)
    outputs = K.product(signed)
    offset, over = b.as_integer_ratio()
    shifted = Vector([value * over + offset * outputs.over for value in outputs.values], outputs.over * over)
    primal = signed.dot(outputs) / 2 + loss_sum(Hinge(), shifted.times(signs), costs)
    if problem.has_offset:
        duals = balanced(duals, signs)
        signed = duals.times(signs)
        outputs = K.product(signed)
    return Values(primal, Fraction(sum(duals.values), duals.over) - signed.dot(outputs) / 2)


def regression_values(problem: LinearProblem, w: Array, alpha: Array) -> Values:
    """P(w) and D(alpha) of a regression; with a free intercept alpha is balanced first."""
    X, weights, duals = _with_intercept(problem), Vector.of(w), _fractions(alpha)
    duals = duals if problem.penalizes_intercept else balanced_sum(duals)
    rows = [[Fraction(value, X.over) for value in row] for row in X.rows]
    products = X.product(weights)
    outputs = [Fraction(value, products.over) for value in products.values]
    penalised = Vector(weights.values[: problem.n_penalised], weights.over)
    length = penalised.dot(penalised)
    columns = list(zip(*rows, strict=True))[: problem.n_penalised]
    dual_length = sum((_dot(column, duals) ** 2 for column in columns), Fraction(0))
    targets, costs = _fractions(problem.y), _fractions(problem.C)
    primal = length / 2 + regression_loss(problem.loss, targets, outputs, costs)
    return Values(primal, regression_dual(problem.loss, targets, duals, costs) - dual_length / 2)


def kernel_regression_values(problem: KernelProblem, K: Matrix, alpha: Array, b: float) -> Values:
    """P(w(alpha), b) and D of alpha, balanced where there is an offset."""
    targets, costs, duals = _fractions(problem.y), _fractions(problem.C), _fractions(alpha)
    rows = [[Fraction(value, K.over) for value in row] for row in K.rows]
    outputs = [_dot(row, duals) for row in rows]
    losses = regression_loss(problem.loss, targets, [output + Fraction(b) for output in outputs], costs)
    primal = _dot(duals, outputs) / 2 + losses
    if problem.has_offset:
        duals = balanced_sum(duals)
        outputs = [_dot(row, duals) for row in rows]
    return Values(primal, regression_dual(problem.loss, targets, duals, costs) - _dot(duals, outputs) / 2)


def regression_loss(loss: Any, targets: list[Fraction], outputs: list[Fraction], costs: list[Fraction]) -> Fraction:
    """sum_i C_i loss(t_i - f_i)"""
    residuals = [target - output for target, output in zip(targets, outputs, strict=True)]
    if isinstance(loss, Quantile):
        q = Fraction(loss.q)
        return _dot(costs, [max(q * r, (q - 1) * r) for r in residuals])
    outside = [max(Fraction(0), abs(r) - Fraction(loss.epsilon)) for r in residuals]
    if isinstance(loss, EpsilonInsensitive):
        return _dot(costs, outside)
    assert isinstance(loss, SquaredEpsilonInsensitive)
    return _dot(costs, [excess * excess for excess in outside])


def regression_dual(loss: Any, targets: list[Fraction], duals: list[Fraction], costs: list[Fraction]) -> Fraction:
    """sum_i t_i alpha_i - epsilon |alpha_i| - alpha_i^2 / (4 C_i), the last for the squared loss only."""
    epsilon = Fraction(0) if isinstance(loss, Quantile) else Fraction(loss.epsilon)
    total = _dot(targets, duals) - epsilon * sum(map(abs, duals))
    if isinstance(loss, SquaredEpsilonInsensitive):
        total -= sum((a * a / (4 * C) for a, C in zip(duals, costs, strict=True) if a), Fraction(0))
    return total


def balanced_sum(signed: list[Fraction]) -> list[Fraction]:
    """Signed variables with sum zero: those of the heavier sign are scaled down."""
    excess = sum(signed)
    heavier = sum((s for s in signed if s * excess > 0), Fraction(0))
    return [s * (1 - excess / heavier) if s * excess > 0 else s for s in signed] if excess else signed


def _fractions(numbers: Array) -> list[Fraction]:
    return [Fraction(value) for value in numbers.tolist()]


def _dot(one: Any, other: Any) -> Fraction:
    return sum((a * b for a, b in zip(one, other, strict=True)), Fraction(0))


def _with_intercept(problem: LinearProblem) -> Matrix:
    X = Matrix.of(problem.rows.matrix)
    if not problem.intercept_scaling:
        return X
    value, over = float(problem.intercept_scaling).as_integer_ratio()
    return Matrix([[*(x * over for x in row), value * X.over] for row in X.rows], X.over * over)


def loss_sum(loss: Any, margins: Vector, costs: Vector) -> Fraction:
    """sum_i C_i loss(m_i)"""
    slacks = [margins.over - margin for margin in margins.values]
    if isinstance(loss, Huber):
        h = Fraction(loss.width)
        return sum(
            (_huber(Fraction(s, margins.over), h) * Fraction(C, costs.over) for s, C in _pairs(slacks, costs)), Fraction(0)
        )
    if not isinstance(loss, LeastSquares):
        slacks = [max(0, slack) for slack in slacks]
    if isinstance(loss, Hinge):
        return Fraction(sum(C * slack for slack, C in _pairs(slacks, costs)), costs.over * margins.over)
    assert isinstance(loss, (SquaredHinge, LeastSquares))
    return Fraction(sum(C * slack * slack for slack, C in _pairs(slacks, costs)), costs.over * margins.over**2)


def _pairs(slacks: list[int], costs: Vector) -> Any:
    return zip(slacks, costs.values, strict=True)


def _huber(slack: Fraction, h: Fraction) -> Fraction:
    return slack if slack >= h else max(Fraction(0), slack + h) ** 2 / (4 * h)


def dual_sum(loss: Any, duals: Vector, costs: Vector) -> Fraction:
    """The sum of a alpha - D alpha^2 / 2 of the table in ``losses``."""
    total = Fraction(sum(duals.values), duals.over)
    if isinstance(loss, Hinge):
        return total
    # D / 2 is 1 / (4 C), or h / C for Huber's loss
    share, slope = (Fraction(loss.width), 1 + Fraction(loss.width)) if isinstance(loss, Huber) else (Fraction(1, 4), 1)
    squares = sum((Fraction(a * a * costs.over, C) for a, C in zip(duals.values, costs.values, strict=True) if a), Fraction(0))
    return slope * total - share * squares / duals.over**2


def balanced(alpha: Vector, signs: list[int]) -> Vector:
    """alpha with sum_i alpha_i y_i = 0: the heavier class times 1 - |excess| / its sum."""
    excess = sum(a * sign for a, sign in zip(alpha.values, signs, strict=True))
    if excess == 0:
        return alpha
    total = sum(a for a, sign in zip(alpha.values, signs, strict=True) if sign * excess > 0)
    left = total - abs(excess)
    values = [a * (left if sign * excess > 0 else total) for a, sign in zip(alpha.values, signs, strict=True)]
    return Vector(values, alpha.over * total) if total > 0 else Vector([-v for v in values], -alpha.over * total)


def kernel_matrix(problem: KernelProblem) -> Matrix:
    X, kernel = Matrix.of(problem.rows.matrix), problem.kernel
    if isinstance(kernel, Precomputed):
        return X
    if isinstance(kernel, RBF):
        squares = [[sum((a - b) ** 2 for a, b in zip(one, other, strict=True)) for other in X.rows] for one in X.rows]
        values = [[exp_of_minus(float(kernel.gamma), square, X.over**2) for square in row] for row in squares]
        return Matrix(values, 1 << EXP_BITS)
    dots = [[sum(a * b for a, b in zip(one, other, strict=True)) for other in X.rows] for one in X.rows]
    if isinstance(kernel, Linear):
        return Matrix(dots, X.over**2)
    assert isinstance(kernel, Polynomial)
    (g, g_over), (c, c_over) = (float(value).as_integer_ratio() for value in (kernel.gamma, kernel.coef0))
    dot_factor, constant, over = g * c_over, c * g_over * X.over**2, g_over * c_over * X.over**2
    powers = [[(dot_factor * dot + constant) ** int(kernel.degree) for dot in row] for row in dots]
    return Matrix(powers, over ** int(kernel.degree))


@lru_cache(maxsize=1_000_000)
def exp_of_minus(gamma: float, square: int, over: int) -> int:
    """exp(-gamma square / over) times 2^EXP_BITS: the series of exp(x / 2^k), squared k times, and the reciprocal."""
    x = Fraction(gamma) * Fraction(square, over)
    halvings = int(x).bit_length() + 4
    one = 1 << (2 * EXP_BITS)
    small = int(x * one) >> halvings
    term = total = one
    k = 1
    while term:
        term = term * small // (one * k)
        total, k = total + term, k + 1
    for _ in range(halvings):
        total = total * total // one
    return (one << EXP_BITS) // total
