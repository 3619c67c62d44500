"""One call solves one problem: ``driver`` alternates a solver and the certificate, ``incumbent`` keeps the best answer so
far, and
``solution`` is what comes back."""
