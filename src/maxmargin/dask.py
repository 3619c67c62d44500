"""Linear support vector classification on a Dask cluster, with the same certificate (:mod:`maxmargin.estimators.dask_svc`)."""

from maxmargin.estimators.dask_svc import LinearSVC

__all__ = ["LinearSVC"]
