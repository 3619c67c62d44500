"""The tuning constants of Newton's method, each with its unit. They are settings of ``Newton``: ``Newton(policy=...)``.

``benchmarks/linear_grid.py`` measures them together. Where a line names no measurement, none of that number alone is recorded.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HessianPolicy:
    """Which passes over the samples and which matrix are used, and how the matrix is made and factored."""

    small_elements: int = 100_000
    """Elements n d, zeros counted, up to which a problem is small: its passes are made in NumPy, without compilation."""
    small_free_elements: int = 30_000
    """``small_elements`` with a free intercept, where the compiled call was not enough or does not suit. On 30 generated
    problems of 200 to 5,000 samples and 5 to 90 features, C = 1 and 100, compiled passes took 0.5 to 1.0 of the seconds of
    those in NumPy once they were compiled, 0.6 in the mean from 1,400 samples on."""
    small_regression_elements: int = 10_000
    """``small_elements`` in regression, whose line searches are longer. On abalone (37,593 elements, epsilon_insensitive, C
    from 0.001 to 100) a fit takes 14 to 75 ms in NumPy and to rounding, 1.3 to 26 ms with compiled loops and to 1e-6."""
    most_matrix_weights: int = 2000
    """Weights up to which a Newton direction comes from a Cholesky factorisation, which takes 0.1 s there. Beyond, it comes
    from conjugate gradients."""
    most_rotated: int = 50_000_000
    """Elements of the dense copy of X that a rotation of its rows may take: 0.4 GB."""
    blas_density: float = 0.3
    """Share of stored elements from which dense blocks and BLAS are faster than accumulation."""
    blas_columns: int = 32
    """Columns from which dense blocks and BLAS are faster than accumulation."""
    rows_a_block: int = 1024
    """Rows that are gathered into a dense block at a time."""
    elements_a_slice: int = 100_000_000
    """Elements that outer products touch between two check points: about 0.1 s."""
    jitter: float = 2.0**-50
    """The first increase of each element of the diagonal, relative to itself and to the length of w, if rounding makes the
    matrix indefinite."""
    jitters: int = 10
    """Times that the jitter is made 16-fold."""
    most_reflected: int = 5_000_000
    """Elements of the free rows up to which a careful factorisation works by reflections: 0.2 s."""


@dataclass(frozen=True)
class ProductPolicy:
    """How exactly conjugate gradients find a direction. Of six choices on generated one-hot columns and text this one was never
    far from the best."""

    loosest: float = 0.1
    """Residual that ends the iteration at first, relative to the gradient."""
    tightest: float = 1e-8
    """The least residual that is asked for, relative to the gradient."""
    forcing: float = 0.25
    """The power of |g|^2, relative to the first, that the residual follows."""
    elements_a_solve: int = 200_000_000
    """Stored elements that the products of one direction may touch: about 0.5 s, so that Ctrl-C and limits are heard."""
    fewest_products: int = 10
    """Products for one direction, however many elements a product touches."""
    near: float = 25.0
    """Factor on the inner gap that is good enough, below which directions are smoothed: earlier, smoothing gains nothing."""
    rare: int = 8
    """Elements up to which a column is rare, so that it is settled after each step (``rare_columns.py``). Ten one-hot problems
    to 1e-3 take 0.91 of the time that they take with 32. With 0 three skewed ones at C = 100 take 1.5 to 2.3 times as long."""
    most_shared: float = 0.25
    """Other rare elements in the row of a rare element, in the mean, up to which rare columns are settled. Columns that share
    samples undo what was done for each other. Six variables of 5,000 skewed values have about one, and at C = 100 and 1000
    they take 0.44 and 0.63 of the time if no column is settled. The limit itself is an estimate, not measured."""
    sufficient: float = 0.1
    """By how much a whole step has to lower the objective, as a share of what its slope at the beginning says. A step that
    makes the gap far less is taken, too."""
    most_products: int = 1000
    """Products for one direction, however few elements a product touches."""


@dataclass(frozen=True)
class DirectionPolicy:
    """What directions on sparse rows are estimated to cost, and when conjugate gradients give way to the matrix. The first four
    were fitted to a9a, w7a and seven generated one-hot tables with 123 to 2,000 columns."""

    near_outer_ns: float = 1.0
    """Nanoseconds for an element of an outer product, without what the size of the matrix adds."""
    outer_ns_a_weight: float = 0.002
    """What each weight adds to that: a larger matrix is in farther caches."""
    cholesky_ns: float = 0.012
    """Nanoseconds for each weight cubed: factoring Newton's matrix on one core."""
    square_ns: float = 6.0
    """Nanoseconds for each weight squared, in addition."""
    product_ns: float = 1.5
    """Nanoseconds for each element of X in a product with the Hessian, on one core."""
    steps: int = 4
    """Newton steps that a problem is expected to take: one-hot tables take 3 to 5."""
    products_a_step: int = 5
    """Products for each of them where all stored elements are equal: one-hot tables take 3 to 6."""
    products_beside_numbers: int = 20
    """The same for other sparse rows. An estimate: one-hot columns beside standardised numbers take 8 to 15 in the mean, beside
    raw ones far more."""
    most_spread: float = 1e3
    """How many times as large as one the numbers of a sparse X may be for products. Beside times in seconds since 1970 the
    columns are too much alike: there products took twice as long as the matrix."""
    samples_a_weight: float = 4.0
    """Samples for each weight from which products are begun with. Any labels of up to two can be separated (T. M. Cover, IEEE
    Transactions on Electronic Computers EC-14, 1965), and then products lead slowly."""
    most_directions: int = 8
    """Newton steps with products after which the matrix is made: one-hot tables take 3 to 6, those whose labels can be
    separated 50 to 300, and conjugate gradients then find ever worse directions."""
    patience: float = 2.0
    """How much longer than the steps with the matrix products may take before the matrix is made after all: both together then
    take at most about three times as long as the matrix alone."""


@dataclass(frozen=True)
class WideColumnsPolicy:
    """When the last digits of alpha do not count."""

    hopeless: float = 1e2
    """Multiple of the objective from which Newton's method in Python leaves this cost out from the beginning. Where it costs
    less, alpha can be mended, and steps that count it are the better ones: with 1e-3 three of 576 raw fits were not
    certified."""
    reach: float = 16.0
    """Units of output that the certificate is expected to leave undecided for such a column. An estimate, not measured."""


@dataclass(frozen=True)
class LineSearchPolicy:
    """How the root of the slope along a direction is found."""

    accuracy: float = 1e-4
    """Slope that ends the search, relative to the slope at its beginning."""
    rough_accuracy: float = 1e-3
    """``accuracy`` for a direction that is itself known to a tenth only."""
    most_looks: int = 60
    """Looks at the slope in one search."""
    wide_bracket: float = 4.0
    """Factor between the ends of a bracket beyond which it is halved on a logarithmic scale."""


@dataclass(frozen=True)
class NewtonPolicy:
    """When the method moves its anchor, changes its penalty, takes more care, and ends."""

    greatest_penalty: float = 1e8
    """The greatest penalty s. Beyond it, the rounding of a margin times the penalty is more than is gained."""
    least_penalty: float = 1e-100
    """The smallest penalty s: its reciprocal has to be finite."""
    trusted_difference: float = 1e-11
    """Difference of a primal and a dual value, relative to the dual value, down to which it is taken for the gap."""
    aim: float = 0.8
    """Share of the target at which a rough direction is good enough: the gap that it leads to, as far as F is quadratic. The
    rest is for samples that become free or cease to be. On 14 generated one-hot tables with C = 1, 30 and 100, to 1e-3, 1e-4
    and 1e-6, fits take 0.995 of the time of 0.9 in the mean, and 0.998 with 0.7."""
    border: float = 1e-12
    """Share of the sums that outputs are made of by which outputs may differ and still count as equal: some thousand
    roundings."""
    converged: float = 1e-12
    """Relative gap below which the rest is rounding, as far as the solver can tell."""
    better_pair: float = 0.7
    """Share of the best pair's gap below which a pair is copied."""
    most_steps_a_call: int = 200
    """Newton steps in one call of ``advance``. On small data a step is far cheaper than its elements say, and Ctrl-C is heard
    only between calls."""
    retreat: float = 1.0 / 16.0
    """The factor on the penalty when rounding hides the gain of an outer step."""
    most_retreats: int = 3
    """Retreats in a row, without a rise of the dual value, that end the iteration."""
    refused_retreat: float = 1.0 / 64.0
    """The factor on the penalty after a certificate was refused at the end of the iteration."""
    most_refusals: int = 4
    """Certificates refused at the end of the iteration after which the solver is stuck."""
    stiff: float = 1e6
    """s C |x|^2 from which separable labels may need a smaller s. Squared hinge, without a proximal term, has s = infinity."""
    stiff_steps: int = 5
    """Newton steps after which that is decided. With squared hinge noisy labels take 4 to 6 steps in all, separable ones 50 to
    240."""
    stiff_weights: int = 32
    """Weights from which that is asked with a free intercept. Samples found one by one take about as many steps as there are
    weights, or several times as many; a new beginning takes 25 to 60 steps. On wine (14 weights, C = 1000) three pairs took 68
    steps without it and 102 with it."""
    stiff_dual: float = 0.5
    """Share of the least primal value below which the best dual value is, where that is decided. An estimate: on separable
    labels a dual value after five steps is near zero, and on a9a at C = 1000 a late step had a negative one by chance."""
    stiff_start: float = 100.0
    """The smaller s C |x|^2. On sparse 400 x 300 tables with values up to 1e4, C = 1 to 1e6, 100 leads to 16 to 19
    steps, 1e4 to 32 to 49, 1e6 to 58 to 62."""
    resolved: float = 1e6
    """s C |x|^2 where rounding has forced a smaller penalty: see ``NewtonState._resolved_penalty``."""
    refinements: int = 2
    """Newton steps in higher precision before an answer is offered again."""
    idle_share: float = 0.9
    """Share of its least value below which the gap has fallen. Other steps are idle."""
    careful_steps: int = 30
    """Idle steps after which the matrix is factored by reflections."""
    idle_steps: int = 100
    """Idle steps that end the iteration."""
    long_margin: float = 1e3
    """The greatest sum of magnitudes that makes up a margin, as far as the solver guesses."""
    coarse_margin: float = 1e-9
    """The rounding error of a margin, by the bound for all samples, from which each sample gets a bound of its own. That takes
    a pass over X. Lengthening w by the error costs twice as much of the objective, far below the default ``tol``."""
    alpha_roundings: float = 16.0
    """Units in the last place by which the sum of all alpha may be wrong, where that counts as rounding: a few for each step
    that changed them, most of which cancel."""
    noisy: float = 1e-3
    """Share of the gap that rounding errors of alpha must be able to cause for a trial that leaves them out, once a certificate
    was refused. A trial takes a tenth of the time of the penalties that are tried otherwise, and few fits get there. An
    estimate, not measured."""
    noticeable: float = 1e-9
    """Share of the objective below which the rounding of margins is not looked at."""
    polishing_steps: int = 10
    """Newton steps from the target to the precision of float64 that are always allowed. Scaled columns take 3 to 5."""
    polishing_share: float = 0.5
    """The same, as a share of the steps to the target. On two raw tables with seven classes, linear kernel, C = 1000, the
    target took 23 and 29 steps, and rounding 44 and 50 more."""
    small_steps: int = 300
    """Newton steps of the compiled call. Scaled columns take 5 to 35, raw tables of 140 to 200 rows 30 to 60, and those of them
    whose labels can be separated 100 to 240: these take a tenth of the time of the method in Python."""
    small_aim: float = 0.9
    """Share of the target at which the compiled call ends in a regression of more than ``small_regression_elements``. The call
    and the certificate find the same gap, up to rounding."""
    some_every: int = 8
    """A regression whose loss has kinks begins at the answer to one of so many samples. On abalone and cpu_act (30 cells each
    of C, epsilon and scaling) the whole data then take 10 and 26 Newton steps in the mean, from zero 14 and 36; with 16
    instead of 8 they take 10 and 28."""
    some_gap: float = 1e-2
    """Relative gap of that answer. At 1e-3 it takes a third more steps, and saves none on the whole data."""
    near_gap: float = 0.5
    """Relative gap up to which that answer is begun with. On columns of very different scales the call may fail at once."""
    some_samples: int = 8
    """Samples for each weight that are needed for it: with fewer, the answer says little. An estimate, not measured."""
    small_hardness: float = 1e150
    """1 / (D_ii C_i) of a loss without curvature in the compiled call for small problems: so steep that nothing else is lost
    to rounding, and far from overflow."""
    small_retreat: float = 2.0**-4
    """What multiplies the penalty where a step of the compiled call is lost to rounding."""
    small_retreats: int = 8
    """How often it does so."""
    small_idle: int = 3
    """Outer steps in a row, without a rise of the dual value, that end the compiled call."""
    matrix: HessianPolicy = HessianPolicy()
    products: ProductPolicy = ProductPolicy()
    directions: DirectionPolicy = DirectionPolicy()
    line_search: LineSearchPolicy = LineSearchPolicy()


@dataclass(frozen=True)
class TurningPolicy:
    """When columns that depend on each other are turned (``turned_columns.py``), and how far."""

    costly: float = 1e-6
    """Share of the objective that the last digits of alpha must be able to cost in one of the columns. An estimate, not
    measured."""
    most_columns: int = 128
    """Features up to which dependent columns are looked for: the main axes of 128 columns take 4 ms. An estimate."""
    dependent: float = 1e-4
    """The mean square that is left of a scaled column along a main axis below which columns depend on each other. An estimate,
    not measured."""
    least_spread: float = 10.0
    """Distance of the farthest number of a column from its mean below which dependence does not count: what is left of such a
    column is so small that it takes a great weight. An estimate, not measured."""
    part: float = 1e-3
    """The element of the projection to these axes from which two columns depend on each other. An estimate, not measured."""
    enough: float = 1e-3
    """Cosine below which two columns count as orthogonal. The last digits of Q leave 1e-5 between order numbers and what they
    leave of a time."""
    most_sweeps: int = 10
    """Rotations of each pair of columns. Times in nanoseconds, milliseconds and order numbers take two or three."""
    aim: float = 1e-10
    """Units of output to which the last digits of w are chosen."""
    noticeable: float = 1e-5
    """Share of the objective that the rounding of w may cost: a tenth of the default ``tol``."""
    stretches: tuple[float, ...] = (1.0, 0.5, 1.5, 2.0)
    """How much longer, in units of the greatest error of an output. An estimate, not measured."""
    most_multiples: float = 2.0**24
    """Digits by which a weight may move for that: a change of 4e-9 of itself."""
    most_digits: int = 8
    """Weights whose digits are chosen together, those with the coarsest: a basis of 9 vectors takes 0.1 s to reduce, and mostly
    there are three."""


DEFAULT = NewtonPolicy()
WIDE = WideColumnsPolicy()
TURNING = TurningPolicy()


def default_policy() -> NewtonPolicy:
    """The policy of a ``Newton`` that is made without one."""
    return DEFAULT
