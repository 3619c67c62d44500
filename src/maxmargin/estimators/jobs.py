"""Several binary problems over one X, each solved by a thread of its own; the compiled loops release the GIL."""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import Any

from maxmargin.data.limits import Stop
from maxmargin.estimators import policy
from maxmargin.estimators.advice import Advice, with_cost
from maxmargin.solving.driver import Callback, Limits
from maxmargin.solving.solution import Progress, Solution, Status

Job = Callable[[Stop], Solution]


def run_jobs(jobs: Sequence[Job], n_jobs: int | None, max_seconds: float) -> list[Solution]:
    """Run every job, all of them within ``max_seconds``."""
    return run_until(Stop.within(max_seconds), jobs, n_jobs)


def run_until(stop: Stop, jobs: Sequence[Job], n_jobs: int | None) -> list[Solution]:
    """Run every job before ``stop`` is due. When one is stopped, by the callback, Ctrl-C or an error, the others
    stop soon after.

    A job gets an equal share of the time that is left when it begins, so that every class has a model when time is short. Time
    that a job does not use goes to the jobs after it, and then to those that had too little: these are run once more.
    """
    if len(jobs) == 1:
        return [jobs[0](stop)]
    solutions = run_in_turn(stop, jobs, n_jobs)
    late = [k for k, solution in enumerate(solutions) if solution.status is Status.TIME_LIMIT]
    longest = max((solutions[k].seconds for k in late), default=math.inf)
    share = stop.seconds_left * min(1.0, thread_count(n_jobs, len(jobs)) / max(1, len(late)))
    if late and not stop.is_due and share >= policy.JOBS.second_share * longest:
        again = run_until(stop, [jobs[k] for k in late], n_jobs)
        for k, solution in zip(late, again, strict=True):
            solutions[k] = min(solution, solutions[k], key=_gap_of)
    return solutions


def _gap_of(solution: Solution) -> float:
    return solution.certificate.relative_gap


def run_in_turn(stop: Stop, jobs: Sequence[Job], n_jobs: int | None) -> list[Solution]:
    """Run every job once, within its share of the time."""
    n_threads = thread_count(n_jobs, len(jobs))
    timed = [_within_share(job, (len(jobs) - k) / n_threads) for k, job in enumerate(jobs)]
    if n_threads == 1:
        return [job(stop) for job in timed]
    with ThreadPoolExecutor(n_threads) as pool:
        futures: list[Future[Solution]] = []
        try:
            for job in timed:
                futures.append(pool.submit(job, stop))
            wait_for(futures)
        except KeyboardInterrupt:
            stop.set()
            futures += [pool.submit(job, stop) for job in timed[len(futures) :]]
        if any(future.done() and future.exception() for future in futures):
            stop.set()
        return [future.result() for future in futures]


def _within_share(job: Job, n_rounds: float) -> Job:
    """Run the job within its share of the time: ``n_rounds`` jobs, this one included, are still to run one after the other."""
    return lambda stop: job(stop.share(n_rounds))


def wait_for(futures: Sequence[Future[Any]]) -> None:
    """Wait until all jobs are done or one has failed. A Ctrl-C just before a wait does not end that wait, so no wait is
    long."""
    while wait(futures, policy.JOBS.hear_seconds, FIRST_EXCEPTION).not_done:
        if any(future.done() and future.exception() for future in futures):
            return


def thread_count(n_jobs: int | None, n_tasks: int) -> int:
    """The number of threads that ``n_jobs`` means for ``n_tasks`` tasks."""
    if n_tasks == 1:
        return 1
    from joblib import effective_n_jobs  # it knows of joblib's own contexts and limits, and takes a while to import

    return min(int(effective_n_jobs(n_jobs)), n_tasks)


class Watched:
    """An estimator whose fits call ``callback`` at each certificate."""

    callback: Any

    def _watcher(self) -> Any:
        """What is called at each certificate. A subclass may add scikit-learn's callbacks."""
        return self.callback


def serialised(callback: Any, verbose: int) -> Callback | None:
    """The user's callback and the ``verbose`` print, never called by two threads at once."""
    if callback is None and not verbose:
        return None
    if verbose:
        from maxmargin.data.compiling import watch  # imports Numba

        watch.is_verbose = True
    lock = threading.Lock()

    def call(progress: Progress) -> bool:
        with lock:
            if verbose:
                print(
                    f"[{progress.solver}] {progress.seconds:8.2f} s  epoch {progress.epochs:8.1f}  "
                    f"relative gap {progress.relative_gap:.2e}  active {progress.active}"
                )
            return callback is not None and bool(callback(progress))

    return call


def warn_if_uncertified(solutions: Sequence[Solution], limits: Limits, X: Any = None, advice: Advice = with_cost) -> None:
    """Raise one ConvergenceWarning for the worst problem that stopped before ``tol``. A solver with ``stop="paper"`` that ended
    by its own rule raises none. Where float64 was not enough, the warning ends with the advice for ``X``."""
    short = [solution for solution in solutions if not solution.status.is_as_asked]
    if not short:
        return
    from sklearn.exceptions import ConvergenceWarning

    worst = max(short, key=lambda solution: solution.certificate.relative_gap)
    certificate = worst.certificate
    warnings.warn(
        f"{worst.status.value} Relative duality gap asked: {limits.tol:.3g}, reached: "
        f"{certificate.relative_gap:.3g} (gap {certificate.gap:.3g}, known to {certificate.rounding_error:.0e}) "
        f"after {worst.epochs:.1f} epochs and {worst.seconds:.2f} s"
        + (f"; {len(short)} of {len(solutions)} binary problems are not certified." if len(solutions) > 1 else ".")
        + (advice(worst, X) if worst.status is Status.PRECISION_LIMIT else ""),
        ConvergenceWarning,
        stacklevel=3,
    )
