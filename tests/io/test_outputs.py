"""Nothing is lost by a path: an output is no input, a link is followed, a device is written through, permissions are kept."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from fuzz.commands import device
from maxmargin.io import load_model, outputs, read_svmlight, save_model, write_svmlight
from maxmargin.io.outputs import Output, written
from maxmargin.models.checkpoint import Checkpoint
from tests.catalogue import labelled


@pytest.fixture
def data(tmp_path):
    X, y = labelled(60, 4, 0.7, 0)
    write_svmlight(X, y, tmp_path / "data")
    return "data"


@pytest.fixture
def model(run, data, tmp_path):
    assert run("train", data, "model")[0] == 0
    return "model"


def mode_of(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def maxmargin(*words, cwd, **options):
    command = [sys.executable, "-m", "maxmargin", *map(str, words)]
    return subprocess.run(command, cwd=cwd, capture_output=True, check=False, **options)


# Inputs and outputs


@pytest.mark.parametrize(
    "words",
    [
        ("train", "data", "data"),
        ("train", "data", "./data"),
        ("train", "data", "link"),
        ("train", "data", "hard"),
        ("train", "data", "new", "--checkpoint", "data"),
        ("train", "data", "new", "--checkpoint", "new"),
        ("train", "data", "model", "--checkpoint", "model"),
        ("predict", "data", "model", "model"),
        ("predict", "data", "model", "data"),
        ("predict", "data", "model", "link"),
        ("convert", "model", "model"),
    ],
    ids=" ".join,
)
def test_an_output_that_is_an_input_is_refused_and_nothing_changes(run, data, model, tmp_path, words):
    os.symlink("data", tmp_path / "link")
    os.link(tmp_path / "data", tmp_path / "hard")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    code, _, err = run(*words)
    assert code == 2
    assert "would be written over" in err
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("other", ["model", "data"])
def test_a_file_that_is_no_checkpoint_is_neither_used_nor_removed(run, data, model, tmp_path, other):
    content = (tmp_path / other).read_bytes()
    os.rename(tmp_path / other, tmp_path / "precious")
    (tmp_path / "data").write_bytes((tmp_path / "precious").read_bytes() if other == "data" else (tmp_path / data).read_bytes())
    code, _, err = run("train", "data", "new", "--checkpoint", "precious")
    assert code == 2
    assert "not a checkpoint of maxmargin" in err
    assert (tmp_path / "precious").read_bytes() == content
    assert not (tmp_path / "new").exists()


def test_the_checkpoint_of_another_fit_stays(run, data, tmp_path):
    state = Checkpoint.open(tmp_path / "state")
    state.save("another fit", read_svmlight(tmp_path / data)[1])
    assert run("train", data, "--checkpoint", "state", "--checkpoint-seconds", "0")[0] == 0
    assert set(Checkpoint.open(tmp_path / "state").alphas) == {"another fit"}


def test_a_checkpoint_of_this_fit_is_removed_at_its_end(run, data, tmp_path):
    assert run("train", data, "--checkpoint", "state", "--checkpoint-seconds", "0")[0] == 0
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("train", "data", "missing/model"), "missing/model: No such file or directory."),
        (("train", "data", "folder"), "folder: Is a directory."),
        (("train", "data", "m" * 300), "File name too long"),
        (("train", "data", "--checkpoint", "missing/state"), "missing/state: No such file or directory."),
        (("predict", "data", "model", "missing/labels"), "No such file or directory"),
        (("convert", "model", "folder"), "Is a directory"),
        (("train", "data", "/proc/model"), "maxmargin: /proc/model: "),
    ],
)
def test_an_output_that_cannot_be_written_is_refused_before_the_work_begins(run, data, tmp_path, monkeypatch, words, sentence):
    (tmp_path / "folder").mkdir()
    for name in ("data.DataFile.read", "data.DataFile.pieces", "data.load", "prediction.load"):
        monkeypatch.setattr(f"maxmargin.cli.{name}", lambda *_, **__: pytest.fail("the work has begun"))
    code, _, err = run(*words)
    assert code == 2
    assert sentence in err


# Devices, pipes, links


def test_a_device_is_written_through_and_stays_a_device(run, data, model, tmp_path):
    null = device(tmp_path, "null")
    for words in (("train", data, null), ("predict", data, model, null), ("convert", model, null)):
        assert run(*words)[0] == 0
        assert stat.S_ISCHR(os.stat(null).st_mode)


def test_a_full_device_is_a_sentence(run, data, model, tmp_path):
    full = device(tmp_path, "full")
    for words in (("train", data, full), ("predict", data, model, full), ("convert", model, full)):
        code, _, err = run(*words)
        assert code == 2
        assert "No space left on device" in err


def test_a_model_on_standard_output_is_the_model_in_a_pipe_and_in_a_file(data, tmp_path, model):
    output = "/proc/self/fd/1"  # /dev/stdout itself is a link that root could lose
    through_pipe = maxmargin("convert", model, output, cwd=tmp_path).stdout
    (tmp_path / "piped").write_bytes(through_pipe)
    with open(tmp_path / "redirected", "wb") as file:
        file.write(b"before ")
        file.flush()
        subprocess.run([sys.executable, "-m", "maxmargin", "convert", model, output], cwd=tmp_path, stdout=file, check=True)
    assert (tmp_path / "redirected").read_bytes().startswith(b"before ")
    (tmp_path / "redirected").write_bytes((tmp_path / "redirected").read_bytes().removeprefix(b"before "))
    for name in ("piped", "redirected"):
        assert (load_model(tmp_path / name).coef_ == load_model(tmp_path / model).coef_).all()


@pytest.mark.parametrize(
    ("name", "number"),
    [("/dev/stdout", 1), ("/dev/stderr", 2), ("/dev/fd/7", 7), ("/proc/self/fd/9", 9), ("/dev/null", None), ("stdout", None)],
)
def test_an_open_descriptor_is_known_by_its_name(name, number):
    assert outputs._descriptor(Path(name)) == number


def test_a_pipe_with_a_name_is_written_through(run, data, model, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    received = []
    reader = threading.Thread(target=lambda: received.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    assert run("predict", data, model, "pipe")[0] == 0
    reader.join(30)
    assert len(received[0].split()) == 60
    assert stat.S_ISFIFO(os.stat(tmp_path / "pipe").st_mode)


@pytest.mark.parametrize("exists", [True, False])
def test_a_link_is_followed_and_stays_a_link(run, data, model, tmp_path, exists):
    (tmp_path / "elsewhere").mkdir()
    if exists:
        (tmp_path / "elsewhere" / "target").write_text("old")
    os.symlink("elsewhere/target", tmp_path / "link")
    assert run("convert", model, "link")[0] == 0
    assert (tmp_path / "link").is_symlink()
    assert load_model(tmp_path / "elsewhere" / "target").n_features_in_ == 4
    assert sorted(os.listdir(tmp_path / "elsewhere")) == ["target"]


# Permissions


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_a_file_that_is_replaced_keeps_its_permissions(tmp_path, mode):
    path = tmp_path / "file"
    path.write_text("old")
    os.chmod(path, mode)
    with written(path) as file:
        assert mode_of(next(other for other in tmp_path.iterdir() if other != path)) == mode
        file.write(b"new")
    assert path.read_text() == "new"
    assert mode_of(path) == mode


def test_a_new_file_has_the_permissions_that_the_user_asks_for(tmp_path):
    old = os.umask(0o027)
    try:
        with written(tmp_path / "file") as file:
            file.write(b"new")
    finally:
        os.umask(old)
    assert mode_of(tmp_path / "file") == 0o640


def test_a_model_that_holds_samples_is_read_by_nobody_who_cannot_read_the_data(run, data, tmp_path):
    os.chmod(tmp_path / data, 0o600)
    assert run("train", data, "kernel.model", "-t", "rbf")[0] == 0
    assert mode_of(tmp_path / "kernel.model") == 0o600
    os.chmod(tmp_path / data, 0o644)
    assert run("train", data, "open.model", "-t", "rbf")[0] == 0
    assert mode_of(tmp_path / "open.model") == 0o666 & ~_umask()
    assert run("convert", "kernel.model", "libsvm", "--to", "libsvm")[0] == 0
    assert mode_of(tmp_path / "libsvm") == 0o600


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_a_block_that_fails_leaves_the_old_file_and_nothing_else(tmp_path):
    def fail():
        with written(tmp_path / "file") as file:
            file.write(b"new")
            raise RuntimeError("half way")

    (tmp_path / "file").write_text("old")
    with pytest.raises(RuntimeError, match="half way"):
        fail()
    assert os.listdir(tmp_path) == ["file"]
    assert (tmp_path / "file").read_text() == "old"


def test_a_file_that_cannot_be_replaced_is_written_over(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_text("old")
    inode = path.stat().st_ino
    monkeypatch.setattr("maxmargin.io.outputs._can_be_replaced", lambda target, status: False)
    with written(path) as file:
        file.write(b"new")
    assert (path.read_text(), path.stat().st_ino) == ("new", inode)


# Names


def test_names_up_to_the_limit_of_the_file_system_work(run, tmp_path):
    longest = os.pathconf(tmp_path, "PC_NAME_MAX")
    data, model, labels, state = (letter * longest for letter in "dmls")
    X, y = labelled(60, 4, 0.7, 0)
    write_svmlight(X, y, tmp_path / data)
    assert run("train", data, model, "--checkpoint", state, "--checkpoint-seconds", "0")[0] == 0
    assert run("predict", data, model, labels)[0] == 0
    assert run("info", model)[0] == 0
    code, _, err = run("train", data)
    assert code == 2
    assert "File name too long" in err


def test_a_name_that_a_terminal_cannot_show_is_shown_in_letters_that_it_has(data, tmp_path):
    strange = os.fsdecode(b"m\xff\x1b[2J")
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = maxmargin("train", data, strange, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    assert b"Model: m\\udcff\\x1b[2J" in done.stdout
    assert load_model(tmp_path / strange).n_features_in_ == 4
    missing = maxmargin("train", strange + "é", cwd=tmp_path, env=environment)
    assert missing.returncode == 2
    assert missing.stderr.startswith(b"maxmargin: ")
    assert missing.stderr.count(b"\n") == 1


@pytest.mark.parametrize("words", [("info", "model"), ("info", "model", "--json"), ("predict", "data", "model")])
def test_standard_output_that_is_full_is_a_sentence(data, model, tmp_path, words):
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "maxmargin", *words]
        done = subprocess.run(command, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(b"maxmargin: The answer cannot be written to standard output: ")
    assert done.stderr.count(b"\n") == 1


def test_an_output_may_be_a_path_or_an_output(tmp_path, data):
    from maxmargin import LinearSVC

    X, y = read_svmlight(tmp_path / data)
    model = LinearSVC().fit(X, y)
    assert save_model(model, tmp_path / "one") == save_model(model, Output(tmp_path / "two"))
    assert (tmp_path / "one").stat().st_size == (tmp_path / "two").stat().st_size


def test_an_error_while_writing_names_the_output_and_not_its_temporary_name(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(next(tmp_path.glob(".maxmargin-*"))))

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space left") as caught, written(tmp_path / "model") as file:
        file.write(b"content")
    assert caught.value.filename == str(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux's /dev/full")
def test_a_full_device_is_named(tmp_path):
    with pytest.raises(OSError, match=r"No space left on device: '/dev/full'"), written("/dev/full") as file:
        file.write(b"1\n")
