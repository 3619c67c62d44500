"""What every estimator shows of itself: scikit-learn's callbacks, a link to its documentation, and a report.

Callbacks are those of scikit-learn 1.9 (``sklearn.callback``, experimental): ``set_callbacks(ProgressBar())``. The tasks of a
fit are ``fit`` and below it one ``certificate`` for each time that the driver certified the best point so far. With an older
scikit-learn there is no ``set_callbacks``; the parameter ``callback`` works everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from maxmargin.displays.report import Report
from maxmargin.solving.solution import Progress

try:
    from sklearn.callback import CallbackSupportMixin as CallbackSupport
    from sklearn.callback import with_callbacks

    HAS_CALLBACKS = True
except ImportError:  # scikit-learn before 1.9
    HAS_CALLBACKS = False

    class CallbackSupport:  # type: ignore[no-redef]
        """Nothing to support."""

    def with_callbacks(method: Any) -> Any:
        return method


__all__ = ["DOCUMENTATION", "HAS_CALLBACKS", "Presented", "fit_task", "with_callbacks"]

DOCUMENTATION = "https://maxmargin.github.io/maxmargin"


class Presented(CallbackSupport):
    """An estimator that scikit-learn's HTML diagram links to its page, and that describes itself in a report."""

    _doc_link_module = "maxmargin"
    _doc_link_template = f"{DOCUMENTATION}/api/generated/maxmargin.{{estimator_name}}.html"

    def report(self, X: Any = None, y: Any = None) -> Report:
        """One self-contained page: what is proved, how the fit went, the data, the parameters and the versions.

        A notebook shows the page; ``report().save("model.html")`` writes it.

        Parameters
        ----------
        X : matrix of shape (n_samples, n_features), optional
            Data to summarise.
        y : array of shape (n_samples,), optional
            Its labels or targets. With both, the page compares the predictions with them: in a table of true and predicted
            classes, or by the errors of a regression.

        Returns
        -------
        report : Report
        """
        estimator: Any = self
        is_asked = X is not None and (y is not None or hasattr(estimator, "offset_"))
        predictions = estimator.predict(X) if is_asked else None
        return Report.from_estimator(self, X, y, predictions=predictions)

    def _watcher(self) -> Callable[[Progress], Any] | None:
        """What is called at each certificate: the parameter ``callback`` and scikit-learn's callbacks."""
        callback, context = getattr(self, "callback", None), getattr(self, "_callback_fit_ctx", None)
        if context is None:
            return callback

        def watch(progress: Progress) -> bool:
            task = context.subcontext(task_name="certificate")
            task.call_on_fit_task_begin(estimator=self)
            stops = task.call_on_fit_task_end(estimator=self)
            return bool(stops) | (callback is not None and bool(callback(progress)))

        return watch


@contextmanager
def fit_task(estimator: Any, X: Any, y: Any, sample_weight: Any) -> Iterator[None]:
    """Tell scikit-learn's callbacks, if there are any, that a fit begins and ends."""
    if not hasattr(estimator, "_skl_callbacks"):
        yield
        return
    context = estimator._init_callback_context(max_subtasks=None)
    data = {"X": X, "y": y, "metadata": None if sample_weight is None else {"sample_weight": sample_weight}}
    context.call_on_fit_task_begin(estimator=estimator, **data)
    yield
    context.call_on_fit_task_end(estimator=estimator, reconstruction_attributes=lambda: fitted_attributes(estimator), **data)


def fitted_attributes(estimator: Any) -> dict[str, Any]:
    """All that ``predict`` may need."""
    return {name: value for name, value in vars(estimator).items() if name.endswith("_") and not name.startswith("__")}
