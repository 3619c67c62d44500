"""One call solves one problem: ``driver`` alternates a solver and the certificate, ``incumbent`` keeps the best answer so far,
``policy`` holds the driver's settings, and ``solution`` is what comes back."""
