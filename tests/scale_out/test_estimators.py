"""``fit_blocks`` is ``fit`` for data on a disk."""

from __future__ import annotations

import numpy as np
import pytest
from safetensors.numpy import save_file

from maxmargin import LinearSVC, LinearSVR, Status
from maxmargin.io import Blocks, MalformedFile, to_blocks
from maxmargin.problem.losses import Hinge
from maxmargin.scale_out import block_fit, policy
from maxmargin.scale_out.block_fit import bytes_from
from maxmargin.scale_out.checkpoint import PassesCheckpoint, SavedTo
from maxmargin.scale_out.executors import OnDisk
from maxmargin.scale_out.passes import Framing

FRAMING = Framing(Hinge(), 1.0, 1.0, 8, "b")


def data(n=3000, d=8, n_classes=3, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d))
    scores = X @ random.normal(size=(d, n_classes)) + random.normal(size=(n, n_classes))
    return X, np.array(["a", "b", "c"])[scores.argmax(axis=1)], scores[:, 0]


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("class_weight", [None, "balanced", {"a": 3.0}])
def test_several_classes_with_weights_are_those_of_fit(loss, class_weight, tmp_path):
    X, y, _ = data()
    weights = np.random.default_rng(1).random(len(y))
    blocks = to_blocks(X, tmp_path, y=y, sample_weight=weights, block_bytes=16_000)
    settings = {"loss": loss, "class_weight": class_weight, "C": 0.3}
    found = LinearSVC(tol=1e-6, **settings).fit_blocks(blocks, memory=400_000)
    expected = LinearSVC(tol=1e-8, **settings).fit(X, y, weights)
    assert found.classes_.tolist() == ["a", "b", "c"]
    assert found.status_ == [Status.CERTIFIED] * 3
    for k in range(3):
        reach = found.certificate_[k].distance_bound + expected.certificate_[k].distance_bound
        assert np.linalg.norm(found.coef_[k] - expected.coef_[k]) <= reach
        assert found.certificate_[k].primal == pytest.approx(expected.certificate_[k].primal, rel=2e-6)
    assert np.array_equal(found.predict(X), found.certified_predict(X).labels)


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "squared_epsilon_insensitive", "quantile"])
def test_regression_is_that_of_fit(loss, tmp_path):
    X, _, t = data()
    blocks = to_blocks(X, tmp_path, y=t, block_bytes=16_000)
    settings = {"loss": loss, "epsilon": 0.1, "C": 0.5}
    found = LinearSVR(tol=1e-6, **settings).fit_blocks(tmp_path, memory=300_000)
    expected = LinearSVR(tol=1e-8, **settings).fit(X, t)
    assert found.status_ is Status.CERTIFIED
    assert found.certificate_.primal == pytest.approx(expected.certificate_.primal, rel=2e-6)
    assert found.predict(X).shape == (3000,)
    assert blocks.n_samples == 3000


def test_a_fit_resumes_from_its_checkpoint(tmp_path, monkeypatch):
    X, y, _ = data()
    blocks = to_blocks(X, tmp_path / "b", y=y, block_bytes=16_000)
    monkeypatch.setattr(policy, "PASSES", policy.PassPolicy(checkpoint_seconds=0.0))
    stopped = LinearSVC(loss="hinge", C=10.0, tol=1e-10, callback=lambda progress: True)
    path = tmp_path / "state"
    with pytest.warns(UserWarning, match="stopped the solver"):
        stopped.fit_blocks(blocks, memory=400_000, checkpoint=path)
    assert path.exists()
    with pytest.raises(MalformedFile, match="another fit"):
        LinearSVC(loss="hinge", C=1.0).fit_blocks(blocks, memory=400_000, checkpoint=path)
    assert path.exists()
    found = LinearSVC(loss="hinge", C=10.0, tol=1e-6).fit_blocks(blocks, memory=400_000, checkpoint=path)
    assert found.relative_gap_ <= 1e-6
    assert not path.exists()


@pytest.mark.parametrize("name", ["alpha 0", "w 0"])
@pytest.mark.parametrize("lie", ["short", "long", "whole numbers", "not finite", "missing"])
def test_a_checkpoint_whose_vectors_do_not_fit_is_refused_and_kept(name, lie, tmp_path):
    """The compiled loops trust the lengths of alpha and w."""
    X, y, _ = data(n_classes=2)
    blocks = to_blocks(X, tmp_path / "b", y=y, block_bytes=16_000)
    key = block_fit._key(blocks, [FRAMING])
    tensors = {"fit": np.frombuffer(key.encode(), np.uint8), "alpha 0": np.zeros(len(y)), "w 0": np.zeros(9)}
    lies = {
        "short": lambda vector: vector[1:],
        "long": lambda vector: np.append(vector, 0.0),
        "whole numbers": lambda vector: vector.astype(np.int64),
        "not finite": lambda vector: np.full_like(vector, np.inf),
    }
    tensors[name] = lies[lie](tensors[name]) if lie in lies else None
    save_file({key: array for key, array in tensors.items() if array is not None}, tmp_path / "state")
    content = (tmp_path / "state").read_bytes()
    with pytest.raises(MalformedFile, match="not a checkpoint of a fit by blocks"):
        PassesCheckpoint.open(SavedTo.of(tmp_path / "state"), key, OnDisk(blocks, [FRAMING]))
    assert (tmp_path / "state").read_bytes() == content


def test_a_file_larger_than_any_checkpoint_of_the_fit_is_not_read(tmp_path):
    X, y, _ = data(n_classes=2)
    blocks = to_blocks(X, tmp_path / "b", y=y)
    with open(tmp_path / "state", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(MalformedFile, match="larger than a checkpoint"):
        PassesCheckpoint.open(SavedTo.of(tmp_path / "state"), "", OnDisk(blocks, [FRAMING]))


def test_too_little_memory_is_refused_with_what_is_needed(tmp_path):
    X, y, _ = data()
    blocks = to_blocks(X, tmp_path, y=y)
    with pytest.raises(ValueError, match="is too little for <Blocks"):
        LinearSVC().fit_blocks(blocks, memory=1000)


@pytest.mark.parametrize(("memory", "n_bytes"), [("2G", 2 * 10**9), ("500 MB", 5 * 10**8), (12345, 12345), ("1.5k", 1500)])
def test_a_budget_is_bytes_or_a_text(memory, n_bytes):
    assert bytes_from(memory) == n_bytes


@pytest.mark.parametrize("memory", ["much", -1, True, "G"])
def test_another_budget_is_refused(memory):
    with pytest.raises(ValueError, match="memory must be"):
        bytes_from(memory)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"penalize_intercept": False}, "penalize_intercept=False"),
        ({"C": np.inf}, "hard margin"),
        ({"solver": "dcd"}, "must be 'auto'"),
        ({"sharp_proofs": True}, "sharp_proofs"),
    ],
)
def test_what_fits_in_partitions_cannot_do_is_refused(settings, sentence, tmp_path):
    X, y, _ = data(100)
    to_blocks(X, tmp_path, y=y)
    with pytest.raises(ValueError, match=sentence):
        LinearSVC(**settings).fit_blocks(tmp_path)


def test_one_class_is_refused_and_a_failed_fit_leaves_the_model_as_it_was(tmp_path):
    X, y, _ = data(100)
    model = LinearSVC().fit(X, y)
    before = model.coef_
    to_blocks(X, tmp_path, y=np.ones(100))
    with pytest.raises(ValueError, match="greater than one; got 1 class"):
        model.fit_blocks(tmp_path)
    assert model.coef_ is before


def test_a_block_that_goes_missing_during_a_fit_is_named(tmp_path):
    X, y, _ = data()
    blocks = to_blocks(X, tmp_path, y=y, block_bytes=16_000)
    (tmp_path / blocks.entries[-1].file).unlink()
    with pytest.raises(MalformedFile, match="the block is missing"):
        LinearSVC().fit_blocks(Blocks(tmp_path), memory=400_000)


def test_the_command_line_trains_within_a_budget(tmp_path):
    from typer.testing import CliRunner

    from maxmargin.cli.commands import app
    from maxmargin.io import load_model, write_svmlight

    X, y, _ = data(2000, n_classes=2)
    labels = np.where(y == "a", 1, 2)
    write_svmlight(X, labels, tmp_path / "data.txt")
    command = [
        "train",
        str(tmp_path / "data.txt"),
        str(tmp_path / "model"),
        "--memory",
        "20M",
        "-e",
        "1e-6",
        "-s",
        "3",
        "--json",
    ]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    model = load_model(tmp_path / "model")
    expected = LinearSVC(loss="hinge", tol=1e-8).fit(X, labels)
    assert model.certificate_.primal == pytest.approx(expected.certificate_.primal, rel=2e-6)
    assert not (tmp_path / "model.blocks").exists()
