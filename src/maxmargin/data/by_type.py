"""Compiled loops that differ in a few operations by the type of one of their arguments.

``@overload(..., inline="always")`` does the same, but Numba then compiles every operation twice: on its own, and where the loop
uses it. Ten small operations made a loop take half as long again to compile. Here the loop is copied once for each type. In the
copy the names of the operations stand for the functions of that type, and Numba inlines them before it infers any types.

    @by_type def target_of(terms, i): ...

    @target_of.when(Hinge)
    def _(terms, i):
        return 1.0

    @loop_by_type("terms", cache=True)
    def descend(rows, terms, w): ...  # may use target_of(terms, i)
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from types import FunctionType
from typing import Any

from maxmargin.data.caching import njit


class Operation:
    """One name for several small functions, each for a type of NamedTuple."""

    def __init__(self, description: Callable[..., Any]) -> None:
        self.__doc__ = description.__doc__
        self._cases: dict[type, Any] = {}

    def when(self, *kinds: type) -> Callable[[Any], Any]:
        """The function for these types."""

        def keep(function: Any) -> Any:
            self._cases |= dict.fromkeys(kinds, njit(inline="always")(function))
            return function

        return keep

    def of(self, kind: type) -> Any:
        return self._cases[kind]

    def __call__(self, *arguments: Any) -> Any:
        raise TypeError("An operation that is chosen by a type exists only inside a loop.")

    def __contains__(self, kind: type) -> bool:
        return kind in self._cases


def by_type(description: Callable[..., Any]) -> Operation:
    return Operation(description)


class Loop:
    """A loop that is compiled once for each type of one of its arguments. For each of them Numba works as always."""

    def __init__(self, function: Any, place: int, options: dict[str, Any]) -> None:
        self.__doc__ = function.__doc__
        self._function, self._place, self._options = function, place, options
        self._copies: dict[type, Any] = {}
        self._lock = threading.RLock()

    def __call__(self, *arguments: Any) -> Any:
        kind = type(arguments[self._place])
        loop = self._copies.get(kind) or self.of(kind)
        return loop(*arguments)

    def of(self, kind: type) -> Any:
        """The compiled loop for this type."""
        with self._lock:
            if kind not in self._copies:
                self._copies[kind] = njit(**self._options)(_copy_for(self._function, kind))
            return self._copies[kind]


def loop_by_type(argument: str, **options: Any) -> Callable[[Any], Loop]:
    """``njit(**options)`` for a loop whose operations depend on the type of the argument with this name. Callers give that
    argument by its place."""

    def make(function: Any) -> Loop:
        return Loop(function, list(inspect.signature(function).parameters).index(argument), options)

    return make


def _copy_for(function: Any, kind: type) -> Any:
    """Copy the code. In the copy the names of operations, and of other loops of this kind, stand for those of this type."""
    known = function.__globals__
    chosen = {name: value.of(kind) for name, value in known.items() if isinstance(value, Operation) and kind in value}
    used = {name: known[name] for name in function.__code__.co_names if isinstance(known.get(name), Loop)}
    chosen |= {name: loop.of(kind) for name, loop in used.items()}
    copy = FunctionType(function.__code__, known | chosen, function.__name__, function.__defaults__)
    copy.__module__, copy.__qualname__, copy.__doc__ = function.__module__, function.__qualname__, function.__doc__
    return copy
