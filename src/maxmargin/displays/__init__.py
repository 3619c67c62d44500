"""Pictures and pages of fits. Pictures need matplotlib, imported when one is drawn: ``pip install maxmargin[plots]``.

==============================================================  ==================
what                                                            where
==============================================================  ==================
the gap against time, a colour for each solver                  ``convergence.py``
labels of the plane, and where they are proved                  ``region.py``
the margin and the support vectors, for two features            ``margin.py``
one self-contained page about a fitted model                    ``report.py``
scores over C with their bounds, coefficients along a path      ``model_selection.py``
==============================================================  ==================

The displays follow scikit-learn: ``from_estimator`` computes what is drawn, ``plot(ax=...)`` draws it, and the artists are
attributes afterwards. They know estimators by their fitted attributes only, so this room imports none of theirs.
"""
