"""``python -m maxmargin`` is the command ``maxmargin``."""

from maxmargin.cli import app

app()
