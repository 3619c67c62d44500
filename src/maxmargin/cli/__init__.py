"""The command ``maxmargin``.

=============================================  ==================================================================
what                                           file
=============================================  ==================================================================
the commands and their options                 ``commands.py``, ``options.py``, ``switches.py``
what is trained                                ``machine.py``, ``families.py``
train, train -v, train -C, path                ``training.py``, ``cross_validation.py``, ``search_c.py``, ``along_c.py``
predict, scale, bench                          ``prediction.py``, ``scaling.py``, ``comparison.py``
the files that a command reads                 ``data.py``
what is said meanwhile, and at the end         ``progress.py``; ``report.py``, ``model_report.py``, ``outcome.py``
=============================================  ==================================================================
"""

from __future__ import annotations


def main() -> None:
    """Run the command. The modules are imported here, so that ``import maxmargin.cli`` costs nothing."""
    from maxmargin.cli.commands import main as run

    run()
