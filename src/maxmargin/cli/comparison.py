"""``maxmargin bench``: our fit of a file beside scikit-learn's, and oneDAL's where it is installed. Every gap is proved."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, fields
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

from maxmargin.cli import options as of
from maxmargin.cli.machine import TrainingOptions, weights_from
from maxmargin.cli.progress import ProgressLine
from maxmargin.cli.training import progress_of, read

THEIR_PACKAGES = {"scikit-learn": "sklearn.svm", "oneDAL": "sklearnex.svm"}
"""The module of each peer. oneDAL comes with scikit-learn-intelex."""


@dataclass(frozen=True)
class BenchPolicy:
    """How a peer is measured."""

    cold_seconds: float = 1.0
    """Seconds below which the first fit of a process is made again: it loads libraries, some 0.1 s of scikit-learn's."""


@dataclass(frozen=True)
class BenchOptions:
    """The options of ``bench``: those of ``train`` that scikit-learn has too, and how often to measure."""

    data: of.Data
    C: of.Cost = 1.0
    tol: of.Tolerance = 1e-4
    kind: of.Kind = None
    loss: of.LossName = None
    tube: of.Tube = None
    nu: of.Nu = None
    kernel: of.Kernel = None
    gamma: of.Gamma = None
    degree: of.Degree = None
    coef0: of.Coef0 = None
    bias: of.Bias = None
    class_weight: of.ClassWeight = None
    repeats: of.Repeats = 3
    max_seconds: of.MostSecondsOfPeer = 60.0
    zero_based: of.ZeroBased = None
    label_column: of.LabelColumn = None
    as_json: of.AsJson = False
    quiet: of.Quiet = False

    def training(self) -> TrainingOptions:
        """The same as options of ``train``. Our own fit has no limit of time."""
        known = {field.name for field in fields(TrainingOptions)} - {"max_seconds"}
        return TrainingOptions(**{name: value for name, value in vars(self).items() if name in known})


class Measured(NamedTuple):
    """A fitted model, the seconds of its fit, and whether it warned that it did not converge."""

    model: Any
    seconds: float
    warned: bool


@dataclass(frozen=True)
class Contestant:
    """One line of the table. ``seconds`` is the least of the repeats, and infinite for a fit that was ended."""

    name: str
    seconds: float
    relative_gap: float
    remark: str


@dataclass(frozen=True)
class BenchReport:
    """What was measured."""

    certified: bool
    contestants: tuple[Contestant, ...]
    n_samples: int
    n_features: int
    repeats: int

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def words(self) -> str:
        """A table, and what it says."""
        width = max(len(each.name) for each in self.contestants)
        lines = [f"{'':{width}}  {'seconds':>9}  {'gap at most':>11}"]
        lines += [
            f"{each.name:{width}}  {each.seconds:>9.4g}  {each.relative_gap:>11.1e}  {each.remark}".rstrip()
            for each in self.contestants
        ]
        lines += [
            f"{self.n_samples} samples, {self.n_features} features. Seconds: the least of {self.repeats}, without compilation.",
            "The gap is relative to the objective, and proved from the data. Peers run at their own default tol.",
        ]
        return "\n".join(lines)


def compared(options: BenchOptions) -> BenchReport:
    """Fit the file by every contestant in turns, and prove how far each answer is from the optimum."""
    if options.repeats < 1:
        raise ValueError(f"--repeats takes a number of at least 1; got {options.repeats}.")
    training = options.training()
    settings = training.settings()
    peers = _peers(training, settings)
    with progress_of(training) as line:
        samples, _ = read(training, line)
        X = samples.X.to_numpy() if hasattr(samples.X, "to_numpy") else samples.X
        own, peers = (
            _ours(training, settings, samples.y),
            {name: _weighted(peer, training, samples.y) for name, peer in peers.items()},
        )
        _check_kernel(own, X)
        line.begin("compiling")
        own.fit(X, samples.y)
        runs = _in_turns({"maxmargin": own, **peers}, X, samples.y, options, line)
        line.begin("proving")
        found = tuple(_contestant(name, each, X, samples.y, options) for name, each in runs.items())
    return BenchReport(found[0].relative_gap <= options.tol, found, X.shape[0], X.shape[1], options.repeats)


def _check_kernel(estimator: Any, X: Any) -> None:
    """Before any fit: a gap is proved only where the kernel is positive semidefinite."""
    if hasattr(estimator, "kernel") and not (kernel := estimator._kernel(X, None)).is_positive_semidefinite:
        raise ValueError(f"{kernel} is not positive semidefinite: no gap can be proved, and nothing would be compared.")


def _ours(training: TrainingOptions, settings: dict[str, Any], y: Any) -> Any:
    return _weighted(training.family.public_estimator()(**settings, **training.limits()), training, y)


def _weighted(estimator: Any, training: TrainingOptions, y: Any) -> Any:
    if training.class_weight is not None:
        estimator.class_weight = weights_from(training.class_weight, y)
    return estimator


def _peers(training: TrainingOptions, settings: dict[str, Any]) -> dict[str, Any]:
    """An unfitted estimator of the same name from every package that has one, with the parameters that it knows."""
    kind = training.family.public.rpartition(".")[2]
    asked = settings | {name: value for name, value in training.limits().items() if name == "C"}
    made = {}
    for name, module in THEIR_PACKAGES.items():
        if find_spec(module.partition(".")[0]) and hasattr(theirs := import_module(module), kind):
            estimator = getattr(theirs, kind)()
            known = {key: value for key, value in asked.items() if key in estimator.get_params()}
            made[f"{name} {kind}"] = estimator.set_params(**known)
    if not made:
        raise ValueError(f"scikit-learn has no {kind}: there is nothing to compare with.")
    return made


def _in_turns(
    contestants: dict[str, Any], X: Any, y: Any, options: BenchOptions, line: ProgressLine
) -> dict[str, Measured | None]:
    """The quickest run of each. A peer that was ended once is not run again."""
    best: dict[str, Measured | None] = {}
    for turn in range(options.repeats):
        for name, estimator in contestants.items():
            if turn and best[name] is None:
                continue
            line.begin(f"{name}, run {turn + 1} of {options.repeats}")
            run = _measured(estimator, X, y) if name == "maxmargin" else _ended_after(options.max_seconds, estimator, X, y)
            known = best.get(name)
            best[name] = run if known is None or run is None or run.seconds < known.seconds else known
    return best


def _measured(estimator: Any, X: Any, y: Any) -> Measured:
    import warnings

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        begun = time.perf_counter()
        estimator.fit(X, y)
        seconds = time.perf_counter() - begun
    return Measured(estimator, seconds, any("onverge" in str(each.message) for each in caught))


def _ended_after(max_seconds: float, estimator: Any, X: Any, y: Any) -> Measured | None:
    """The fit of a peer, in a process of its own: LIBSVM's loop hears neither a limit nor Ctrl-C. None where it was ended."""
    from multiprocessing import get_context

    context = get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_send_fit, args=(there, estimator, X, y), daemon=True)
    process.start()
    there.close()
    try:
        if not here.poll() and not _arrives(here, max_seconds):
            return None
        answer = here.recv()
    except EOFError:
        raise ValueError(f"The process that fits {type(estimator).__name__} ended without an answer.") from None
    finally:
        process.kill()
        process.join()
    if isinstance(answer, Exception):
        raise ValueError(f"{type(estimator).__module__.partition('.')[0]} refuses: {answer}") from answer
    return answer


def _arrives(connection: Any, max_seconds: float) -> bool:
    """Wait for the sign that the fit begins, and then for its end."""
    connection.recv()
    return bool(connection.poll(max_seconds))


def _send_fit(connection: Any, estimator: Any, X: Any, y: Any) -> None:
    connection.send("begins")
    try:
        run = _measured(estimator, X, y)
        connection.send(run if run.seconds >= BenchPolicy().cold_seconds else _measured(estimator, X, y))
    except ValueError as error:
        connection.send(error)


def _contestant(name: str, run: Measured | None, X: Any, y: Any, options: BenchOptions) -> Contestant:
    from maxmargin.cli.report import listed
    from maxmargin.models.judging import judge

    if run is None:
        return Contestant(name, float("inf"), float("inf"), f"ended after {options.max_seconds:g} s")
    if name == "maxmargin":
        gap = run.model.relative_gap_
        return Contestant(name, run.seconds, gap, "certified" if gap <= options.tol else "NOT certified")
    proofs = listed(judge(run.model, X, y, tol=options.tol, max_seconds=options.max_seconds))
    gap = max(proof.relative_gap for proof in proofs)
    return Contestant(name, run.seconds, gap, "warned that it did not converge" if run.warned else "")
