"""``python -m maxmargin`` is the command ``maxmargin``."""

from maxmargin.cli.commands import main

main()
