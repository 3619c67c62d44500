"""Labels of points that move slowly (:mod:`maxmargin.estimators.streams`)."""

from maxmargin.estimators.streams import LabelStream, MovedTooFar

__all__ = ["LabelStream", "MovedTooFar"]
