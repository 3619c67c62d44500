"""The command ``maxmargin``: ``commands`` are its functions, ``options`` what can be asked, ``report`` what is said at the end,
``progress`` what is said meanwhile."""

from __future__ import annotations


def main() -> None:
    """Runs the command. The modules are imported here, so that ``import maxmargin.cli`` costs nothing."""
    from maxmargin.cli.commands import main as run

    run()
