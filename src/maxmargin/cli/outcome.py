"""How a command ends: an answer on standard output, or one sentence on standard error, and an exit code."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import typer

from maxmargin.cli.report import printable

CERTIFIED, BAD_INPUT, UNCERTIFIED = 0, 2, 3
"""The exit codes."""
EXPLAINED = (ValueError, TypeError, OSError, ImportError, MemoryError, OverflowError, RecursionError)
"""Errors of bad input, a full disk or too little memory. Any other error is a mistake of ours, and keeps its traceback."""


@contextmanager
def bad_input_explained() -> Iterator[None]:
    """Bad input ends the command with a sentence on standard error and exit code 2."""
    try:
        yield
    except BrokenPipeError:  # the reader of our output has closed it
        abandon_output()
        raise typer.Exit(BAD_INPUT) from None
    except EXPLAINED as error:
        complain(_sentence_of(error))
        raise typer.Exit(BAD_INPUT) from None


def _sentence_of(error: Exception) -> str:
    """An error of the system as "FILE: No such file or directory.", without its number; any other in its own words."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{os.fsdecode(error.filename)}: {error.strerror}."
    return str(error) or f"{type(error).__name__}."


def complain(sentence: str) -> None:
    """Write one sentence to standard error. If that is closed too, only the exit code is left."""
    with suppress(OSError):
        print(f"maxmargin: {printable(sentence)}", file=sys.stderr, flush=True)


def abandon_output() -> None:
    """Drop what is left in the buffer of standard output, so that the end of the process does not try to write it again."""
    with suppress(OSError, ValueError):  # standard output may be no file at all
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
        os.close(nothing)


def say(report: dict[str, Any], words: str, *, as_json: bool, quiet: bool) -> None:
    """Write the answer to standard output. A full disk ends the command with a sentence."""
    if quiet and not as_json:
        return
    with bad_input_explained():
        try:
            print(json.dumps(report) if as_json else printable(words), flush=True)
        except OSError as error:
            abandon_output()
            raise OSError(f"The answer cannot be written to standard output: {error}.") from error


def end(*, certified: bool) -> None:
    """Leave the command with the exit code that says whether the answer is certified."""
    raise typer.Exit(CERTIFIED if certified else UNCERTIFIED)
