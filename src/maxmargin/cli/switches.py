"""What users of LIBLINEAR and LIBSVM type, and what it means here: the numbers of -s and -t, -wi, -h, and what is missing.

Every number of the two tools is either translated, or answered with a sentence that says what to use instead.
"""

from __future__ import annotations

import re
from itertools import pairwise

LOSS_OF_TYPE = {
    1: "squared_hinge",
    2: "squared_hinge",
    3: "hinge",
    4: "hinge",
    5: "squared_hinge",
    11: "squared_epsilon_insensitive",
    12: "squared_epsilon_insensitive",
    13: "epsilon_insensitive",
}
"""LIBLINEAR's -s, where there is no -t. Its 1 and 2, and its 11 and 12, are two solvers for one problem. Its 4 is the machine
of Crammer and Singer, its 5 has an L1 penalty."""
SETTINGS_OF_TYPE = {4: {"multi_class": "crammer_singer"}, 5: {"penalty": "l1"}}
"""What else a type of LIBLINEAR's for classes says."""
ONE_CLASS = 21
"""LIBLINEAR's -s for its one-class SVM."""
REGRESSION_LOSSES = ("epsilon_insensitive", "squared_epsilon_insensitive", "quantile")
KERNEL_LOSSES = ("epsilon_insensitive", "quantile")
"""The losses of regression with a kernel."""
TYPES_WITH_NU, KERNEL_TYPES_WITH_NU = ("21",), ("1", "2", "4")
"""Values of -s with which -n is nu, and not the number of threads: LIBLINEAR's without -t, LIBSVM's with it."""
MISSING_LINEAR_TYPES = {
    0: "logistic regression in LIBLINEAR (use scikit-learn's LogisticRegression), and C-SVC in LIBSVM (add -t 2)",
    6: "logistic regression with an L1 penalty: use scikit-learn's LogisticRegression(penalty='l1', solver='liblinear')",
    7: "logistic regression: use scikit-learn's LogisticRegression",
}
KERNEL_TYPES = {0: "C-SVC", 1: "nu-SVC", 2: "the one-class SVM", 3: "epsilon-SVR", 4: "nu-SVR"}
"""LIBSVM's -s, where there is a -t."""
NU_SVC, KERNEL_ONE_CLASS, EPSILON_SVR, NU_SVR = 1, 2, 3, 4
KERNEL_OF_TYPE = {"0": "linear", "1": "poly", "2": "rbf", "3": "sigmoid", "4": "precomputed", "polynomial": "poly"}
"""LIBSVM's -t, and its word for what scikit-learn calls poly."""
KERNELS = ("linear", "poly", "rbf", "sigmoid", "precomputed")
SWITCH_OF_PARAMETER = {
    "C": "-c",
    "tol": "-e",
    "gamma": "-g",
    "degree": "-d",
    "coef0": "-r",
    "cache_size": "-m",
    "n_jobs": "-n",
    "intercept_scaling": "-B",
    "max_iter": "--max-iter",
    "max_seconds": "--max-seconds",
    "random_state": "--seed",
    "class_weight": "-w",
    "epsilon": "-p",
    "nu": "-n",
}
"""What the user wrote for a parameter of an estimator."""
NO_PROBABILITIES = (
    "-b 1 is not supported yet: maxmargin trains no probabilities. In Python, wrap the model in scikit-learn's "
    "CalibratedClassifierCV; svm-train -b 1 writes a model with probabilities."
)
_WEIGHT = re.compile(r"-w(?P<label>[^=\s]+)")
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_PARAMETER = re.compile(r"(?P<name>\w+)(?= must be )")


def in_our_words(words: list[str]) -> list[str]:
    """The arguments of ``train`` with LIBLINEAR's ``-w1 2`` as ``-w 1=2``, LIBSVM's ``-h 0`` as ``--no-shrinking``, and ``-n``
    as ``--nu`` where it is that: a fraction, or a type that has a nu."""
    ours: list[str] = []
    has_nu = _type_of(words) in (KERNEL_TYPES_WITH_NU if _has_kernel(words) else TYPES_WITH_NU)
    rest = list(words)
    while rest:
        word, following = rest.pop(0), rest[0] if rest else ""
        if (found := _WEIGHT.fullmatch(word)) and _NUMBER.fullmatch(following):
            ours += ["-w", f"{found['label']}={rest.pop(0)}"]
        elif word == "-n" and _NUMBER.fullmatch(following) and (has_nu or "." in following):
            ours.append("--nu")
        elif word == "-h" and following in ("0", "1"):
            ours.append("--shrinking" if rest.pop(0) == "1" else "--no-shrinking")
        else:
            ours.append(word)
    return ours


def _type_of(words: list[str]) -> str | None:
    """The number after -s."""
    return next((following for word, following in pairwise(words) if word in ("-s", "--type")), None)


def _has_kernel(words: list[str]) -> bool:
    return any(word.startswith(("-t", "--kernel")) for word in words)


def loss_of(kind: int | None, loss: str | None) -> str:
    """The loss that -s or --loss names."""
    if kind is None:
        return str(loss or "squared_hinge")
    if kind in MISSING_LINEAR_TYPES:
        raise ValueError(f"-s {kind} is not supported yet. It is {MISSING_LINEAR_TYPES[kind]}.")
    if kind not in LOSS_OF_TYPE:
        raise ValueError(
            f"-s {kind} is not a type of LIBLINEAR: 3 is hinge loss, 1 and 2 are squared hinge loss, 4 is for all classes "
            "together, 5 has an L1 penalty, 11 to 13 are regression."
        )
    if loss is not None and loss != LOSS_OF_TYPE[kind]:
        raise ValueError(f"-s {kind} is {LOSS_OF_TYPE[kind]} loss, and --loss says {loss}: leave one of them out.")
    return LOSS_OF_TYPE[kind]


def kernel_type_of(kind: int | None, loss: str | None) -> int:
    """LIBSVM's -s with a kernel. Where there is none, a loss of regression means epsilon-SVR."""
    is_regression = loss in REGRESSION_LOSSES
    if kind is None:
        kind = EPSILON_SVR if is_regression else 0
    if kind not in KERNEL_TYPES:
        known = ", ".join(f"{number} is {name}" for number, name in KERNEL_TYPES.items())
        raise ValueError(f"-s {kind} is not a type of LIBSVM: with a kernel (-t), {known}.")
    if loss is not None and (kind != EPSILON_SVR or loss not in KERNEL_LOSSES):
        has = "the loss epsilon_insensitive or quantile" if kind == EPSILON_SVR else "a loss of its own"
        raise ValueError(f"With a kernel (-t) {KERNEL_TYPES[kind]} (-s {kind}) has {has}: leave --loss {loss} out.")
    return kind


def kernel_of(text: str) -> str:
    """The kernel that -t names or numbers."""
    kernel = KERNEL_OF_TYPE.get(text, text)
    if kernel not in KERNELS:
        raise ValueError(f"-t {text} is not a kernel: 0 is linear, 1 poly, 2 rbf, 3 sigmoid, 4 precomputed.")
    return kernel


def in_switches(sentence: str) -> str:
    """A complaint about a parameter of an estimator, as one about the switch: "-m must be greater than 0"."""
    found = _PARAMETER.match(sentence)
    if found is None or found["name"] not in SWITCH_OF_PARAMETER:
        return sentence
    return f"{SWITCH_OF_PARAMETER[found['name']]} ({found['name']}){sentence[found.end() :]}"
