"""Packages whose public names are loaded when they are first used (PEP 562), and public modules without a file of their own."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec

TYPE_CHECKING = False  # type checkers know the name; the import of typing takes 7 ms
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import ModuleType
    from typing import Any


def lazy_names(
    package: str, homes: Mapping[str, str], modules: Mapping[str, str] | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` for a package, from each public name to the module that it lives in.

    ``modules`` maps the name of a public module to the module that stands for it: ``import package.name`` finds it, too."""
    modules = modules or {}
    if modules:
        sys.meta_path.append(Aliases(package, modules))

    def load(name: str) -> Any:
        if name in modules:
            value = import_module(modules[name])
        elif name in homes:
            value = getattr(import_module(homes[name]), name)
        else:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        module = vars(sys.modules[package])
        return sorted({*module, *module["__all__"], *modules})

    return load, names


class Aliases:
    """Find modules that are another name for a module elsewhere. Both names are one module.

    A finder and loader for ``sys.meta_path``. It does not inherit from the classes of ``importlib.abc``: that import takes 10
    ms."""

    def __init__(self, package: str, modules: Mapping[str, str]) -> None:
        self.homes = {f"{package}.{name}": home for name, home in modules.items()}

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        return ModuleSpec(name, self) if name in self.homes else None  # type: ignore[arg-type]  # it has what a loader has

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(self.homes[spec.name])
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """The module has run already. The import gave it the alias for its spec: it gets its own back."""
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state
