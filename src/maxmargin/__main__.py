"""``python -m maxmargin`` is the command ``maxmargin``."""

from maxmargin.cli import main

main()
