"""Estimators with scikit-learn's names: validation, wiring and attributes, no numerics."""
