"""What the values of a header may be: types, ranges, lengths and depth, checked before any of them is used.

A rule looks at a value of JSON and returns what is wrong with it, in words that begin with its name, or None.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from typing import Any, get_type_hints

from maxmargin.io import policy

Rule = Callable[[str, Any], str | None]


def _rule(is_right: Callable[[Any], bool], words: str) -> Rule:
    def complaint(name: str, value: Any) -> str | None:
        return None if is_right(value) else f"{name} must be {words}; it is {_shown(value)}"

    return complaint


def number(least: float = -math.inf, greatest: float = math.inf, *, is_open: bool = False, is_finite: bool = True) -> Rule:
    """The rule for a number between two bounds. ``is_open`` excludes the lower one."""
    words = "a finite number" if is_finite else "a number"
    if least > -math.inf:
        words += f" {'greater than' if is_open else 'of at least'} {least:g}"
    if greatest < math.inf:
        words += f" of at most {greatest:g}"

    def is_right(value: Any) -> bool:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return False
        if isinstance(value, int) and abs(value) > 2**1000:  # beyond float64
            return False
        in_range = (value > least if is_open else value >= least) and value <= greatest
        return in_range and (math.isfinite(value) or not is_finite)

    return _rule(is_right, words)


def whole(least: int = -(2**63), greatest: int = 2**63 - 1) -> Rule:
    def is_right(value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and least <= value <= greatest

    return _rule(is_right, f"a whole number between {least} and {greatest}")


def text(most: int = policy.HEADERS.most_characters) -> Rule:
    """Characters that can be written as UTF-8: half of a surrogate pair cannot."""

    def is_right(value: Any) -> bool:
        return isinstance(value, str) and len(value) <= most and not any("\ud800" <= c <= "\udfff" for c in value)

    return _rule(is_right, f"a text of at most {most} characters")


def flag() -> Rule:
    return _rule(lambda value: isinstance(value, bool), "true or false")


def one_of(*choices: Any) -> Rule:
    """Exactly one of these, of the same type: 1 is not true."""

    def is_right(value: Any) -> bool:
        return any(type(value) is type(choice) and value == choice for choice in choices)

    return _rule(is_right, f"one of {', '.join(map(repr, choices))}")


def either(*rules: Rule) -> Rule:
    """The rule that holds if one of the rules does. The complaint is that of the last one."""

    def complaint(name: str, value: Any) -> str | None:
        sentences = [rule(name, value) for rule in rules]
        return None if None in sentences else sentences[-1]

    return complaint


def list_of(item: Rule, *, least: int = 0, most: int | None = None) -> Rule:
    def complaint(name: str, value: Any) -> str | None:
        if not isinstance(value, list) or len(value) < least or (most is not None and len(value) > most):
            length = f" of {least} items" if most == least else f" of at least {least} items" if least else ""
            return f"{name} must be a list{length}; it is {_shown(value)}"
        return next((sentence for k, each in enumerate(value) if (sentence := item(f"{name}[{k}]", each))), None)

    return complaint


def row_of(*rules: Rule) -> Rule:
    """The rule for a list of as many items as there are rules, each by its own."""

    def complaint(name: str, value: Any) -> str | None:
        if not isinstance(value, list) or len(value) != len(rules):
            return f"{name} must be a list of {len(rules)} items; it is {_shown(value)}"
        return next((sentence for k, rule in enumerate(rules) if (sentence := rule(f"{name}[{k}]", value[k]))), None)

    return complaint


def record(needed: Mapping[str, Rule], optional: Mapping[str, Rule] | None = None) -> Rule:
    """The rule for a table: all needed names are there, and no unknown ones."""
    rules = {**needed, **(optional or {})}

    def complaint(name: str, value: Any) -> str | None:
        if not isinstance(value, dict):
            return f"{name} must be a table of names and values; it is {_shown(value)}"
        for key in needed:
            if key not in value:
                return f"{name} has no {key!r}"
        for key, each in value.items():
            if key not in rules:
                return f"{name} has {_shown(key)}, which this version does not know"
            sentence = rules[key](f"{name}.{key}", each)
            if sentence:
                return sentence
        return None

    return complaint


RULES_OF_TYPES = {
    float: number(is_finite=False),
    int: whole(),
    bool: flag(),
    str: text(),
}


def fields_of(kind: Any) -> Rule:
    """The rule for the fields of a dataclass, by their types. Fields with a default may be missing."""
    hints = get_type_hints(kind)
    rules = {field.name: RULES_OF_TYPES[hints[field.name]] for field in fields(kind)}
    needed = {field.name for field in fields(kind) if field.default is MISSING}
    return record(
        {name: rule for name, rule in rules.items() if name in needed},
        {name: rule for name, rule in rules.items() if name not in needed},
    )


def _shown(value: Any) -> str:
    """A wrong value as text, or its type where it is long."""
    if isinstance(value, (list, dict)):
        return f"a {'list' if isinstance(value, list) else 'table'} of {len(value)} items"
    if isinstance(value, int) and abs(value) > 2**64:
        return "a very large number"
    shown = repr(value[: policy.HEADERS.shown_characters] if isinstance(value, str) else value)
    return shown if len(shown) <= policy.HEADERS.shown_characters + 2 else f"{shown[: policy.HEADERS.shown_characters]}..."
