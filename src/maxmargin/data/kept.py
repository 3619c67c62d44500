"""A property that is computed once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

Value = TypeVar("Value")


class kept(Generic[Value]):
    """``functools.cached_property`` without its lock, which takes a microsecond for each value before Python 3.12: that counts
    in small fits. Two threads may both compute a value; they must find the same."""

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self.compute, self.name, self.__doc__ = compute, compute.__name__, compute.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...

    @overload
    def __get__(self, instance: object, owner: type) -> Value: ...

    def __get__(self, instance: object | None, owner: type) -> Value | Self:
        if instance is None:
            return self
        value = vars(instance)[self.name] = self.compute(instance)
        return value
