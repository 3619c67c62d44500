"""The sizes and limits of the problems and their kernels, each with its unit. Tests replace a policy as a whole."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LinearProblemPolicy:
    """What a linear problem takes for granted."""

    balance: float = 1e-12
    """Share of sum_i |alpha_i| up to which sum_i alpha_i sigma_i counts as zero: some thousand units of roundoff."""
    precise_rows: int = 4096
    """Rows that are brought to a higher precision at a time. An estimate, not measured."""


@dataclass(frozen=True)
class OffsetPolicy:
    """How quantiles of many kinks are found. With 20,000 kinks and these sizes that takes 0.04 ms instead of 0.06 ms, with
    60,000 0.08 ms instead of 0.7 ms."""

    sample_every: int = 16
    """One value out of so many is in the sample that tells where a quantile is likely to be."""
    least_sample: int = 256
    """Values in that sample; with fewer, all values are put into order at once."""


@dataclass(frozen=True)
class KernelProblemPolicy:
    """What a kernel problem takes for granted, and how its values are made."""

    symmetry: float = 1e-8
    """Share of its greatest element by which a matrix of kernel values may differ from its transpose."""
    dense_features: int = 1 << 12
    """Features up to which a block of sparse rows may be made dense. An estimate, not measured."""
    coarse: float = 1e-11
    """Bound on the rounding error of an RBF value up to which it is made from dot products. With C = 1e4 and a thousand samples
    this is 1e-4 of the objective, the default ``tol``, before the certificate computes the decisive outputs once more."""
    far: float = 1000.0
    """The same choice for the greatest 4 gamma |x|^2, by which dot products lose more digits than differences do. Rows of
    thousands of features have a bound above ``coarse`` whatever their values are, and differences would not lower it."""
    rows_of_differences: int = 64
    """Rows whose differences are made between two check points: with 512 columns and a thousand features, 10 ms."""
    most_factors: int = 16
    """The greatest degree of a polynomial kernel whose powers are made by multiplication. NumPy's power takes ten times as long
    as a cube."""
    most_monomials: int = 1000
    """The most features of a polynomial kernel. A matrix of that size takes 12 ms to factor, by the cost model of ``auto``."""


@dataclass(frozen=True)
class HeldValuesPolicy:
    """When the whole kernel matrix is held in float64."""

    most_samples: int = 1024
    """Samples up to which it is held: 8 MB, which the caches take. With more samples, float32 values and a certificate that
    keeps none are faster."""
    rows_a_strip: int = 64
    """Rows of kernel values that are made at a time, where X is dense. The mirror image of a higher strip is copied across more
    lines than the nearest cache takes: 256 rows took 1.0 to 2.1 times as long for 400 to 1,024 samples with 4 to 64 features,
    and 0.8 to 1.1 times with 784 features or at most 200 samples."""
    sparse_rows_a_strip: int = 256
    """The same where X is sparse. A product of sparse matrices takes long to begin: 64 rows took 1.1 to 1.5 times as long."""
    share_of_budget: float = 0.5
    """Share of the budget for kernel values that values shared between classes, or outputs, may take. An estimate,
    not measured."""
    cache_bytes: int = 1 << 19
    """Bytes of the samples that are read to make a row, up to which rows are made on demand. They must stay in a cache, because
    every row reads them all: half of the second-level cache of the machine on which this was written."""
    few_classes: int = 4
    """Classes up to which the values within a class are not computed before they are needed. A class of k classes is in k - 1
    pairs, and a pair reads a seventh of its rows on digits: values that five pairs read in parts are cheaper by one product."""
    most_rows: float = 0.5
    """Share of the rows that are made on demand. All rows at once took as long as 0.55 of them on demand for 360 samples with
    64 features or 520 with 13, 0.7 for 190 with 10 to 16, and 0.9 for 400 with 4. With 1/3, fits of 11 and 26 classes took
    1.00 to 1.07 times as long."""


@dataclass(frozen=True)
class NuProblemPolicy:
    """What a problem with nu takes for granted."""

    full_share: float = 1.0 - 1e-12
    """Share of the sum of the bounds from which a fixed sum leaves no room. Every variable is then at its bound. Some thousand
    units of roundoff below one."""


LINEAR = LinearProblemPolicy()
OFFSET = OffsetPolicy()
KERNEL = KernelProblemPolicy()
HELD = HeldValuesPolicy()
NU = NuProblemPolicy()
