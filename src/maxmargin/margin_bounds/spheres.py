"""Spheres that hold the samples: the bound on the change in a margin is taken around their centres; see
``maxmargin.margin_bounds.pruned_loss``."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from maxmargin.data.rows import Array
from maxmargin.margin_bounds.pruned_loss_loops import squared_radii, sum_clusters
from maxmargin.problem.linear import LinearProblem
from maxmargin.problem.losses import UNIT_ROUNDOFF

MOST_CLUSTERS = 32_767
"""A list, one of two for each cluster, is numbered in 16 bits."""


@dataclass(frozen=True)
class SpherePolicy:
    """How centres are found. A bound holds around any centre; these decide what a centre costs and how near it is."""

    centre_share: float = 0.05
    """Share of a pass over X that products with two centres may cost, for the classes to have centres of their own."""
    rows_for_clusters: int = 20_000
    """Rows on which k-means runs, unless there are more clusters than that."""
    rows_for_a_mean: int = 2000
    """Rows whose mean is a centre, about."""


DEFAULT = SpherePolicy()


@dataclass(frozen=True, eq=False)
class Spheres:
    """The centre around which each sample's margin is bounded, and how far the sample is from it.

    ``centres`` has a row for each cluster, in the layout of the compiled loops: the last element is the constant feature.
    """

    centres: Array
    cluster: Array
    radii: Array

    @classmethod
    def around_origin(cls, problem: LinearProblem) -> Spheres:
        """The bound (2), with the norm of each sample."""
        return cls._around(problem, np.zeros((1, problem.rows.n_features + 1)), np.zeros(problem.n_samples, np.uint16))

    @classmethod
    def around_classes(cls, problem: LinearProblem, policy: SpherePolicy = DEFAULT) -> Spheres:
        """One sphere a class, around its mean."""
        return cls._around(problem, class_means(problem, policy), _classes(problem))

    @classmethod
    def around_clusters(cls, problem: LinearProblem, n_clusters: int, seed: int = 0, policy: SpherePolicy = DEFAULT) -> Spheres:
        """One sphere for each of ``n_clusters`` that k-means finds on a sample of the rows."""
        if not 1 <= n_clusters <= min(problem.n_samples, MOST_CLUSTERS):
            most = min(problem.n_samples, MOST_CLUSTERS)
            raise ValueError(f"n_clusters must lie in 1 .. {most} for {problem.n_samples} samples; got {n_clusters!r}.")
        from sklearn.cluster import MiniBatchKMeans
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

        order = np.random.default_rng(seed).permutation(problem.n_samples)
        sample = np.sort(order[: max(policy.rows_for_clusters, n_clusters)])
        with threadpool_limits(1):  # its threads wait for each other, which is slow on a busy machine
            model = MiniBatchKMeans(n_clusters, n_init=3, random_state=seed).fit(problem.rows.matrix[sample])
            cluster = model.predict(problem.rows.matrix).astype(np.uint16)
        return cls._around(problem, _means(problem, cluster, n_clusters, policy), cluster)

    @classmethod
    def default(cls, problem: LinearProblem, policy: SpherePolicy = DEFAULT) -> Spheres:
        """Around the classes, where the features are few enough for products with two centres at every evaluation."""
        is_cheap = 2.0 * problem.rows.n_features <= policy.centre_share * problem.rows.n_stored
        return cls.around_classes(problem, policy) if is_cheap else cls.around_origin(problem)

    @classmethod
    def _around(cls, problem: LinearProblem, centres: Array, cluster: Array) -> Spheres:
        squared_centres = np.einsum("kj,kj->k", centres, centres)
        rounding = 4.0 * (problem.rows.n_features + 8.0) * UNIT_ROUNDOFF
        radii = np.empty(problem.n_samples)
        squared_radii(problem.rows.compiled(), cluster, centres, squared_centres, rounding, radii)
        centres[:, -1] = problem.intercept_scaling
        radii = np.nextafter(np.sqrt(radii).astype(np.float32), np.float32(np.inf))
        return cls(centres, cluster, radii)


def class_means(problem: LinearProblem, policy: SpherePolicy = DEFAULT) -> Array:
    """The means of the negative and of the positive samples, in the layout of the compiled loops."""
    return _means(problem, _classes(problem), 2, policy)


def _classes(problem: LinearProblem) -> Array:
    return (problem.y > 0).astype(np.uint16)


def _means(problem: LinearProblem, cluster: Array, n_clusters: int, policy: SpherePolicy) -> Array:
    """The mean of a part of the rows of each cluster: a bound holds around any centre."""
    sums, sizes = np.zeros((n_clusters, problem.rows.n_features + 1)), np.zeros(n_clusters)
    every = max(1, problem.n_samples // (policy.rows_for_a_mean * n_clusters))
    sum_clusters(problem.rows.compiled(), cluster, every, sums, sizes)
    return sums / np.maximum(sizes, 1.0)[:, None]
