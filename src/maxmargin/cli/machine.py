"""What the options of ``train`` ask for: the parameters of an estimator and its solver, or a sentence why that cannot be."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maxmargin.cli import families, switches
from maxmargin.cli import options as of


@dataclass(frozen=True)
class KernelDefaults:
    """What a kernel machine is given where the options say nothing."""

    cache_megabytes: float = 500.0
    """Memory for kernel values: the rows of 8,000 support vectors among 8,000 samples in float64."""


@dataclass(frozen=True)
class LinearDefaults:
    """What a linear machine is given where the options say nothing: LIBLINEAR's values."""

    tube: float = 0.1
    quantile: float = 0.5
    nu: float = 0.5


@dataclass(frozen=True)
class TrainingOptions:
    """The options of ``train``."""

    data: of.Data
    model: of.NewModel = None
    C: of.Cost = 1.0
    tol: of.Tolerance = 1e-4
    kind: of.Kind = None
    loss: of.LossName = None
    tube: of.Tube = None
    quantile: of.QuantileLevel = None
    nu: of.Nu = None
    kernel: of.Kernel = None
    gamma: of.Gamma = None
    degree: of.Degree = None
    coef0: of.Coef0 = None
    cache_size: of.CacheSize = None
    shrinking: of.Shrinking = None
    bias: of.Bias = None
    free_intercept: of.FreeIntercept = False
    class_weight: of.ClassWeight = None
    folds: of.Folds = None
    find_C: of.FindC = False
    probability: of.Probability = 0
    sharp_proofs: of.SharpProofs = False
    solver: of.SolverName = "auto"
    stop: of.Stop = of.StopBy.gap
    epsilon: of.Epsilon = None
    max_iter: of.MostEpochs = -1
    max_seconds: of.MostSeconds = None
    n_jobs: of.Threads = None
    seed: of.Seed = 0
    zero_based: of.ZeroBased = None
    n_features: of.Width = None
    float32: of.Float32 = False
    label_column: of.LabelColumn = None
    checkpoint: of.CheckpointFile = None
    checkpoint_seconds: of.CheckpointSeconds = 5.0
    report_page: of.ReportPage = None
    memory: of.MemoryBudget = None
    as_json: of.AsJson = False
    quiet: of.Quiet = False

    @property
    def has_kernel(self) -> bool:
        return self.kernel is not None

    @property
    def takes_kernel_values(self) -> bool:
        return self.kernel is not None and switches.kernel_of(self.kernel) == "precomputed"

    @property
    def own_model(self) -> Path:
        """Where the model goes."""
        return self.model or Path(f"{self.data.name}.model")

    def settings(self) -> dict[str, Any]:
        """The parameters of the estimator that tell one machine from another."""
        if self.probability != 0:
            raise ValueError(switches.NO_PROBABILITIES)
        if self.report_page is not None and self.family.targets is not families.Targets.CLASSES:
            raise ValueError("--report shows margins and labels: it is for classes only.")
        if self.kernel is not None:
            return self._of_kernel(self.kernel)
        self._refuse_options_of_kernels()
        if self.kind == switches.ONE_CLASS:
            return self._of_one_class()
        return self._of_regression() if self.family is families.LINEAR_REGRESSION else self._of_linear()

    @property
    def family(self) -> families.Family:
        """What kind of machine is asked for."""
        if self.kernel is not None:
            return families.FAMILY_OF_KERNEL_TYPE[switches.kernel_type_of(self.kind, self.loss)]
        if self.kind == switches.ONE_CLASS:
            return families.LINEAR_ONE_CLASS
        loss = switches.loss_of(self.kind, self.loss)
        return families.LINEAR_REGRESSION if loss in switches.REGRESSION_LOSSES else families.LINEAR_CLASSES

    def limits(self) -> dict[str, Any]:
        """The parameters that every estimator has."""
        limits = {
            "C": self.C,
            "tol": self.tol,
            "max_iter": self.max_iter,
            "max_seconds": self.max_seconds,
            "n_jobs": self.n_jobs,
            "random_state": self.seed,
        }
        return {name: value for name, value in limits.items() if name not in self.family.lacks}

    def chosen_solver(self, settings: dict[str, Any]) -> Any:
        """The solver of that name, which ends as was asked: by the gap the name will do."""
        from maxmargin.solvers.registry import ending_by_own_rule

        if self.stop is of.StopBy.paper:
            return ending_by_own_rule(made_solver(self.solver, settings), self.epsilon)
        if self.epsilon is not None:
            raise ValueError("--epsilon belongs to the solver's own stopping rule: ask for that with --stop paper.")
        return self.solver

    def _refuse_options_of_kernels(self) -> None:
        for name in ("gamma", "degree", "coef0", "cache_size", "shrinking"):
            if getattr(self, name) is not None:
                raise ValueError(f"--{name.replace('_', '-')} belongs to a kernel: choose one with -t.")

    def _of_linear(self) -> dict[str, Any]:
        """The parameters of a linear machine for classes."""
        self._refuse("tube", "-p (the epsilon of support vector regression) belongs to regression: choose it with -s 11 or 13.")
        self._refuse("quantile", "--quantile belongs to --loss quantile.")
        self._refuse("nu", "-n with a fraction is nu, which belongs to the one-class SVM (-s 21): use -c.")
        settings = switches.SETTINGS_OF_TYPE.get(self.kind, {}) if self.kind is not None else {}
        return {**self._of_loss(), **settings, "sharp_proofs": self.sharp_proofs}

    def _of_regression(self) -> dict[str, Any]:
        """The parameters of a linear machine for numbers."""
        self._refuse_options_of_classes("regression")
        self._refuse("nu", "-n with a fraction is nu, which belongs to the one-class SVM (-s 21): use -c and -p.")
        settings = self._of_loss()
        return {**settings, **self._of_tube(settings["loss"])}

    def _of_tube(self, loss: str) -> dict[str, Any]:
        """The loss of a regression with its parameter."""
        return regression_settings(loss, self.tube, self.quantile)

    def _of_one_class(self) -> dict[str, Any]:
        """The parameters of the linear machine for one class: nu alone."""
        self._refuse_options_of_classes("the one-class SVM (-s 21)")
        for name, switch in (("loss", "--loss"), ("tube", "-p"), ("quantile", "--quantile")):
            self._refuse(name, f"{switch} does not belong to the one-class SVM (-s 21), whose parameter is nu: -n.")
        if self.free_intercept or (self.bias is not None and self.bias >= 0.0):
            raise ValueError("The one-class SVM (-s 21) has no intercept but its offset: leave -B and -R out.")
        return {"nu": LinearDefaults().nu if self.nu is None else self.nu}

    def _of_loss(self) -> dict[str, Any]:
        """The loss and the intercept."""
        value = 1.0 if self.bias is None else self.bias
        return {
            "loss": switches.loss_of(self.kind, self.loss),
            "fit_intercept": value >= 0.0,
            "intercept_scaling": value if value > 0.0 else 1.0,
            "penalize_intercept": not self.free_intercept,
        }

    def _refuse_options_of_classes(self, machine: str) -> None:
        self._refuse("class_weight", f"-w weights classes, and {machine} has none.")
        if self.sharp_proofs:
            raise ValueError(f"--sharp-proofs is for classes: leave it out with {machine}.")

    def _refuse(self, name: str, sentence: str) -> None:
        if getattr(self, name) is not None:
            raise ValueError(sentence)

    def _of_kernel(self, kernel: str) -> dict[str, Any]:
        """The parameters of a kernel machine. Options that only the linear solver has are refused."""
        self._refuse_options_of_the_linear_solver()
        given = {
            "degree": self.degree,
            "coef0": self.coef0,
            "gamma": None if self.gamma is None else _number_or_word(self.gamma),
            "shrinking": self.shrinking,
        }
        return {
            "kernel": switches.kernel_of(kernel),
            "cache_size": KernelDefaults().cache_megabytes if self.cache_size is None else self.cache_size,
            **{key: value for key, value in given.items() if value is not None},
            **self._of_kernel_type(switches.kernel_type_of(self.kind, self.loss)),
        }

    def _of_kernel_type(self, kind: int) -> dict[str, Any]:
        """What one of LIBSVM's machines has and the others do not; the options of the others are refused."""
        name, settings = switches.KERNEL_TYPES[kind], dict[str, Any]()
        if kind not in (0, switches.NU_SVC):
            self._refuse("class_weight", f"-w weights classes, and {name} (-s {kind}) has none.")
        if kind in (switches.NU_SVC, switches.KERNEL_ONE_CLASS, switches.NU_SVR):
            settings["nu"] = LinearDefaults().nu if self.nu is None else self.nu
        else:
            self._refuse("nu", f"-n with a fraction is nu, which {name} (-s {kind}) does not have: use -c.")
        if kind == switches.EPSILON_SVR:
            settings |= self._of_tube(str(self.loss or "epsilon_insensitive"))
        else:
            self._refuse("tube", f"-p is the tube of epsilon-SVR (-s 3), and {name} (-s {kind}) has none: leave -p out.")
            self._refuse("quantile", "--quantile belongs to --loss quantile.")
        if self.bias is not None and kind != 0:
            raise ValueError(f"{name} (-s {kind}) always has its offset: leave -B out.")
        return settings | ({"fit_intercept": self.bias is None} if kind == 0 else {})

    def _refuse_options_of_the_linear_solver(self) -> None:
        if self.sharp_proofs:
            raise ValueError("--sharp-proofs is for linear models only: leave -t out.")
        if self.free_intercept:
            raise ValueError("With a kernel (-t) the intercept is never penalised: leave -R out.")
        if self.bias is not None and self.bias >= 0.0:
            raise ValueError(
                "With a kernel (-t) the intercept is no feature with a value: -B takes only a negative number, for none."
            )


def made_solver(solver: Any, settings: dict[str, Any]) -> Any:
    """A solver by its name, with the settings that an estimator would give it."""
    if "kernel" in settings and "nu" in settings:
        from maxmargin.estimators.nu_fit import made_nu_solver

        return made_nu_solver(solver, settings["cache_size"])
    if "kernel" in settings:
        from maxmargin.estimators.kernel_settings import kernel_solver

        return kernel_solver(solver, settings.get("shrinking", True), settings["cache_size"])
    from maxmargin.solvers.registry import solver_named

    return solver_named(solver)


def weights_from(texts: list[str] | None, y: Any) -> Any:
    """'balanced', or a dictionary from LABEL=WEIGHT with labels of the type that y has."""
    if not texts or texts == ["balanced"]:
        return "balanced" if texts else None
    weights = {}
    for text in texts:
        label, equals, weight = text.rpartition("=")
        try:
            weights[y.dtype.type(label)] = float(weight)
        except ValueError:
            equals = ""
        if not equals:
            raise ValueError(f"A class weight is 'balanced' or LABEL=WEIGHT; got {text!r}.")
    _check_weights(weights, y)
    return weights


def _check_weights(weights: dict[Any, float], y: Any) -> None:
    """Refuse a weight for a label that does not occur. LIBLINEAR only warns, and trains something else than was asked."""
    for label, weight in weights.items():
        if not (y == label).any():
            raise ValueError(f"-w names the label {_shown(label)}, which does not occur in the data.")
        if not 0.0 <= weight < float("inf"):
            raise ValueError(f"-w gives the label {_shown(label)} the weight {weight:g}: a weight is zero or positive.")


def _shown(label: Any) -> str:
    return f"{label:g}" if isinstance(label, float) else str(label)


def _number_or_word(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def regression_settings(loss: str, tube: float | None, quantile: float | None) -> dict[str, Any]:
    """The loss of a regression with its parameter."""
    defaults = LinearDefaults()
    if loss == "quantile":
        if tube is not None:
            raise ValueError("The quantile loss has no tube: leave -p out.")
        return {"loss": loss, "quantile": defaults.quantile if quantile is None else quantile}
    if quantile is not None:
        raise ValueError("--quantile belongs to --loss quantile.")
    return {"loss": loss, "epsilon": defaults.tube if tube is None else tube}
