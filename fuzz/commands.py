"""Every command, in this process, on a mutated file in one of its places: exit 0, 2 or 3, and with 2 one sentence.

What a command reads it leaves as it was, whatever it is asked to write.
"""

from __future__ import annotations

import contextlib
import io
import os
import random
import shutil
import stat
from pathlib import Path

from fuzz import seeds, targets
from fuzz.mutations import mutated_bytes, mutated_tree, mutated_words
from fuzz.targets import READERS, Target, Wrong, ask
from maxmargin.cli.commands import app

COMMANDS = tuple(
    f"cli/{name}"
    for name in (
        "commands",
        "data",
        "families",
        "machine",
        "model_report",
        "options",
        "outcome",
        "prediction",
        "progress",
        "report",
        "scaling",
        "switches",
        "training",
    )
)
FILES = ("io/outputs", "io/ranges", "models/proof", "models/kernel_proof", "models/checkpoint", "models/model_file")
MODULES = tuple(f"src/maxmargin/{name}.py" for name in (*COMMANDS, *FILES))
PLAIN: tuple[list[str], ...] = ([], ["-t", "rbf"], ["-s", "3"], ["-R"], ["-t", "linear"], ["--checkpoint", "state"])
OTHER_MACHINES: tuple[list[str], ...] = (
    *(["-s", kind] for kind in ("4", "5", "13", "21")),
    *(["-t", "2", "-s", kind] for kind in "1234"),
    ["--memory", "50M"],
    ["-v", "3"],
)
"""Options of ``train``: classification, and all classes, L1, regression, one class and nu; blocks on disk; cross-validation."""
FOLDER_OF_SEEDS: list[Path] = []
DEVICES = {"null": (1, 3), "full": (1, 7)}
"""Major and minor numbers on Linux."""


def device(folder: Path, name: str) -> Path:
    """A device of our own. Whoever is root must not test on those of the machine: a command that goes wrong replaces them."""
    if os.geteuid() != 0:
        return Path("/dev") / name
    path = folder / name
    if not path.exists():
        os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(*DEVICES[name]))
    return path


def prepare(folder: Path) -> None:
    """The files that commands are run on."""
    home = folder / "valid"
    home.mkdir()
    FOLDER_OF_SEEDS[:] = [home]
    (home / "data").write_bytes(seeds.text_of_data(folder))
    (home / "data.csv").write_bytes(seeds.TABLE)
    (home / "data.npz").write_bytes(targets._archive(dict(targets.NPZ_PARTS[0]), random.Random(1)))
    for name, model in targets.NATIVE_MODELS.items():
        (home / name.replace(" ", "-")).write_bytes(model.content)
    (home / "their-linear").write_bytes(targets.MODELS_OF_OTHERS["LIBLINEAR"][0])
    (home / "their-kernel").write_bytes(targets.MODELS_OF_OTHERS["LIBSVM"][1])
    (home / "their-regression").write_bytes(targets.MODELS_OF_OTHERS["LIBSVM"][seeds.OF_LIBSVM.index("regression")])
    (home / "state").write_bytes(targets.CHECKPOINT)
    (home / "ranges").write_text("y\n0 1\n-1 1\nx\n-1 1\n1 -3 5\n2 0 0.25\n4 1 2\n")
    compile_all(home, folder / "warm")


def compile_all(home: Path, output: Path) -> None:
    """Run every way to train once: a loop that is compiled during a case would use up the time of that case."""
    for data, columns in (("data", []), ("data.npz", []), ("data.csv", ["--label-column", "kind"])):
        for extra in (*PLAIN, *OTHER_MACHINES):
            words = [word if word != "state" else str(output.with_suffix(".state")) for word in extra]
            outputs = [] if "-v" in extra else [str(output)]
            run(["train", str(home / data), *outputs, *columns, *words, "--max-iter", "20"])


def command_case(chance: random.Random, folder: Path) -> str:
    home = folder / "home"
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(FOLDER_OF_SEEDS[0], home)
    words, inputs = _words(chance, [str(device(folder, name)) for name in DEVICES])
    mutant = home / chance.choice(inputs)
    mutant.write_bytes(_mutated(mutant.read_bytes(), chance))
    before = {path.name: path.read_bytes() for path in home.iterdir() if path.name in inputs}
    code, errors = run([str(home / word) if (home / word).exists() or word in ("new", "other") else word for word in words])
    for name, content in before.items():
        if "--checkpoint" not in words or name != "state":
            ask((home / name).read_bytes() == content, f"{words}: {name} was written over")
    ask(code in (0, 2, 3), f"{words}: exit {code}: {errors}")
    if code == 2:
        lines = errors.strip().split("\n")
        ask(len(lines) == 1 and lines[0].startswith("maxmargin: "), f"{words}: not one sentence: {errors!r}")
    strangers = [path.name for path in home.iterdir() if path.name.startswith(".maxmargin-")]
    ask(not strangers, f"{words}: left {strangers}")
    return "refused" if code == 2 else "accepted"


def _mutated(content: bytes, chance: random.Random) -> bytes:
    """Bytes, words, or for a native model its header with a new digest."""
    is_native = content[1:8] == bytes(7) or content[2:8] == bytes(6)
    if is_native and b'"maxmargin"' in content and b"sha256" in content and chance.random() < 0.5:
        model = seeds.taken_apart(content)
        with contextlib.suppress(*targets.IMPOSSIBLE):
            return seeds.put_together(mutated_tree(model.header, chance), model.tensors)
    if chance.random() < 0.3:
        return content
    return chance.choice((mutated_bytes, mutated_words))(content, chance)


def _words(chance: random.Random, devices: list[str]) -> tuple[list[str], list[str]]:
    """A command, and which of its files are read."""
    linear, kernel = ("linear", "linear-sharp", "their-linear"), ("kernel-sparse", "kernel-dense", "their-kernel")
    others = (
        "linear-l1",
        "linear-all-classes",
        "linear-regression",
        "linear-one-class",
        "regression",
        "nu-classes",
        "nu-regression",
        "one-class",
        "their-regression",
    )
    data, model = chance.choice(("data", "data", "data", "data.npz", "data.csv")), chance.choice((*linear, *kernel, *others))
    columns = ["--label-column", "kind"] if data == "data.csv" else []
    output = chance.choice(("new", "new", "new", *devices, data, model, "missing/folder"))
    match chance.randrange(8):
        case 0:
            extra = chance.choice((*PLAIN, *OTHER_MACHINES))
            if data == "data":
                extra = [*extra, "--n-features", "64"]
            inputs = [data, "state"] if "--checkpoint" in extra else [data]
            words = [data] if "-v" in extra else [data, output if output != model else "new"]
            return ["train", *words, *columns, *extra, "--max-iter", "20"], inputs
        case 1:
            extra = chance.choice(([], ["-d"], ["--certified"], ["--json"]))
            return ["predict", data, model, output, *columns, *extra], [data, model]
        case 2:
            extra = chance.choice((["-c", "1"], ["-c", "1", "-p", "0.1"], ["-n", "0.5"], ["-c", "1", "-n", "0.5"], []))
            return ["certify", "data", model, *extra, "--max-seconds", "0.05"], ["data", model]
        case 3:
            to = chance.choice(("maxmargin", "liblinear", "libsvm"))
            return ["convert", model, output if output != data else "new", "--to", to], [model]
        case 4:
            extra = chance.choice(([], ["-l", "0"], ["-y", "0", "1"], ["-s", "other"], ["-r", "ranges"], ["-r", "ranges"]))
            inputs = [data, "ranges"] if "ranges" in extra else [data]
            return ["scale", data, output if output != model else "new", *columns, *extra], inputs
        case 5:
            return ["path", data, *columns, "--from", "0.5", "--to", "2", "-e", "0.1"], [data]
        case _:
            shown = chance.choice((model, "linear-words", "kernel-values", "state", "data"))
            return ["info", shown, *chance.choice(([], ["--json"]))], [shown]


def run(words: list[str]) -> tuple[int, str]:
    """The exit code and what was said on standard error."""
    errors = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(errors):
        try:
            app(words)
        except SystemExit as ending:
            return int(ending.code or 0), errors.getvalue()
    raise Wrong(f"{words}: a command that does not end")


TARGETS = [Target("commands", 1, (*MODULES, f"{READERS}/svmlight.py"), command_case)]
