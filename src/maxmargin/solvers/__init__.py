"""The solvers. ``base`` says what one is, ``registry`` knows them by name; one folder for linear problems, one for kernels."""
