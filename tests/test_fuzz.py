"""The fuzzer and the soak themselves: each target runs, and what is wrong is found."""

from __future__ import annotations

import copy
import random
import warnings
from fractions import Fraction

import numpy as np
import pytest

from fuzz import commands, exact, folders, mutations, pieces, problems, run, soak, state, targets
from fuzz.targets import Wrong
from maxmargin.certificate.certificate import Certificate
from maxmargin.io import MalformedFile
from maxmargin.problem.kernels import RBF

TARGETS = {target.name: target for target in run.all_targets()}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("fuzz")
    for module in (targets, folders, commands):
        module.prepare(made)
    return made


@pytest.mark.parametrize("name", TARGETS)
def test_the_first_cases_of_every_target_find_nothing(folder, name):
    n_cases = 12 if name == "commands" else 40
    outcomes = [run.outcome_of(TARGETS[name], number, folder) for number in range(n_cases)]
    assert {outcome for outcome in outcomes if isinstance(outcome, str)} >= {"refused"}
    assert [outcome for outcome in outcomes if not isinstance(outcome, str)] == []


def test_the_same_number_is_the_same_case(folder):
    target, contents = TARGETS["svmlight text"], []
    for _ in range(2):
        run.outcome_of(target, 7, folder)
        contents.append((folder / "mutant").read_bytes())
    assert contents[0] == contents[1]


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (lambda path, **_: (_ for _ in ()).throw(KeyError("x")), "KeyError"),
        (lambda path, **_: (_ for _ in ()).throw(MalformedFile("another", "it is wrong")), "Wrong"),
        (lambda path, **_: (targets.sparse.csr_matrix((1, 1)), np.zeros(1)), "Wrong"),
    ],
    ids=["another error", "a sentence about another file", "a wrong answer"],
)
def test_a_reader_that_is_wrong_is_found(folder, monkeypatch, answer, kind):
    monkeypatch.setattr(targets, "read_svmlight", answer)
    outcomes = [run.outcome_of(TARGETS["svmlight text"], number, folder) for number in range(20)]
    assert kind in {outcome["kind"] for outcome in outcomes if not isinstance(outcome, str)}


def test_a_model_with_another_weight_is_an_altered_model(folder):
    model = targets.NATIVE_MODELS["linear"]
    tensors = {**model.tensors, "coef_": model.tensors["coef_"] + 1.0}
    (folder / "altered").write_bytes(targets.seeds.put_together(model.header, tensors))
    assert not targets._same(folder / "altered", model)
    (folder / "altered").write_bytes(model.content)
    assert targets._same(folder / "altered", model)


def test_what_is_done_is_kept_until_the_code_changes(tmp_path, monkeypatch):
    monkeypatch.setattr(state, "FOLDER", tmp_path)
    first = state.State.open("state.json")
    first.of("target", "code").outcomes["accepted"] = 3
    first.save()
    assert state.State.open("state.json").of("target", "code").n_cases == 3
    assert state.State.open("state.json").of("target", "other code").n_cases == 0


def test_a_comment_is_no_code(tmp_path, monkeypatch):
    monkeypatch.setattr(state, "ROOT", tmp_path)
    digests = []
    for text in ('"""One."""\nx = 1\n', '"""Two."""\nx = 1  # a comment\n', "x = 2\n"):
        (tmp_path / "module.py").write_text(text)
        digests.append(state.digest_of(("module.py",)))
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize("task", soak.TASKS, ids=lambda task: task.name)
def test_the_first_cases_of_every_task_find_nothing(task):
    own = state.Progress()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(30 if task.batch > 1 else 2):
            soak.run_case(task, own)
    assert own.findings == []
    assert soak.done(own, "cases") > 0


def certificate(gap, rounding_error):
    return Certificate(1.0, 1.0 - gap, gap, gap, rounding_error, 1.0, 1, 0)


@pytest.mark.parametrize(
    ("claimed", "true_gap", "is_certified"),
    [
        (certificate(1e-9, 1e-12), Fraction(1, 10**8), False),
        (certificate(1e-9, 1e-12), Fraction(1, 10**10), False),
        (certificate(1e-9, 1e-6), Fraction(1, 10**7), True),
        (certificate(1e-9, 1e-12), Fraction(-1, 10**9), False),
        (certificate(np.inf, np.inf), Fraction(1), True),
    ],
    ids=["too small", "too great", "not within tol", "a dual above the primal", "infinite and certified"],
)
def test_a_certificate_that_is_wrong_is_found(claimed, true_gap, is_certified):
    with pytest.raises(Wrong):
        problems.check_certificate(claimed, exact.Values(Fraction(1), 1 - true_gap), 1e-8, is_certified, True, "x")


def test_the_exact_exponential_is_that_of_math():
    import math

    for square in (0, 1, 7, 300, 5000):
        value = exact.exp_of_minus(RBF(0.5).gamma, square, 64) / 2**exact.EXP_BITS
        assert value == pytest.approx(math.exp(-0.5 * square / 64), rel=1e-15)


def test_exact_values_agree_with_those_of_the_problem():
    chance = random.Random(0)
    for _ in range(50):
        problem = problems.linear_problem(chance)
        w = np.array([chance.randint(-8, 8) / 8 for _ in range(problem.n_weights)])
        alpha = np.minimum(problem.box.U, 0.25) * (problem.C > 0)
        values = exact.linear_values(problem, w, alpha)
        assert float(values.primal) == pytest.approx(problem.primal(w), rel=1e-12)
        if problem.penalizes_intercept:
            assert float(values.dual) == pytest.approx(problem.dual(alpha), rel=1e-12, abs=1e-12)


def test_a_case_does_not_depend_on_those_before_it():
    """Lists among the junk are put into a tree, and changed there."""
    tree = {"a": [1, 2], "b": {"c": 3.0}, "d": "e"}
    first = [mutations.mutated_tree(copy.deepcopy(tree), random.Random(number)) for number in range(300)]
    again = [mutations.mutated_tree(copy.deepcopy(tree), random.Random(number)) for number in range(300)]
    assert list(map(repr, first)) == list(map(repr, again))


def test_exact_values_of_a_regression_agree_with_those_of_the_problem():
    chance = random.Random(1)
    for _ in range(50):
        X, _ = problems.samples(chance)
        y, loss = np.array([chance.randint(-8, 8) / 4 for _ in X]), chance.choice(problems.REGRESSION_LOSSES)
        problem = problems.LinearProblem.build(X, y, 1.0, loss, 1.0)
        w = np.array([chance.randint(-8, 8) / 8 for _ in range(problem.n_weights)])
        alpha = np.array([chance.choice((-0.25, 0.0, 0.25)) for _ in X])
        values = exact.regression_values(problem, w, alpha)
        assert float(values.primal) == pytest.approx(problem.primal(w), rel=1e-12)
        assert float(values.dual) == pytest.approx(problem.dual(alpha), rel=1e-12, abs=1e-12)


def test_balanced_sums_are_zero_and_keep_signs():
    signed = [Fraction(3), Fraction(-1), Fraction(2), Fraction(0)]
    balanced = exact.balanced_sum(signed)
    assert sum(balanced) == 0
    assert all(0 <= new * old <= old * old for new, old in zip(balanced, signed, strict=True))


def test_pieces_of_several_commits_are_added_up(tmp_path):
    for lane, count in ((0, 7), (3, 5)):
        lanes = state.State(
            tmp_path / ".cache" / f"soak-{lane}.json", {"linear problems": state.Progress("x", 9, {"cases": count})}
        )
        lanes.save()
    path = tmp_path / "PIECES.json"
    for commit in ("aaa", "bbb", "aaa"):
        pieces.keep(tmp_path, commit, path)
    found = pieces.pieces("soak", path)
    assert list(found) == ["aaa", "bbb"]
    assert pieces.pieces("kills", path) == {}
    total = pieces.added([piece["linear problems"] for piece in found.values()])
    assert total.outcomes == {"cases": 24}
