"""Data larger than memory, and more than one machine: linear fits by passes over partitions of the rows.

A pass is map and reduce: a task is run on every partition, and its results are added. What a partition remembers (its alpha)
stays where the partition is. A solver is a generator of passes (``passes.py``). An executor runs them: threads over data in
memory, a reader over blocks on a disk, or the workers of a Dask cluster. The solver is the same for all three.

=======================================================================  ==========================================
what                                                                     where
=======================================================================  ==========================================
blocks of rows on a disk: layout, checksums, errors                      ``blocks.py``
writing them, from files, arrays and generators                          ``writing.py``, ``sources.py``
partitions, passes, and the executors of this machine                    ``passes.py``, ``executors.py``
the executor of a Dask cluster                                           ``workers.py``
the certificate as one pass                                              ``judging.py``
Newton's method by passes, for few features                              ``newton.py``, ``answers.py``
  its first w; the rows near a kink, visited alone                       ``guessing.py``, ``nearby.py``
coordinate descent on partitions, for many features;                     ``descent.py``
  the step of C.-P. Lee and D. Roth, "Distributed box-constrained
  quadratic optimization for dual linear SVM", ICML 2015, eq. (9)
  in random groups of blocks, on one machine                             ``hands.py``
  the fit: rounds, looks for a better w, what can still move             ``wide.py``
rows that a proof or a margin settles; the rest solved in memory         ``remainder.py``
whether a client collects all rows from its workers                      ``collecting.py``
all rows of partitions as one block                                      ``stacking.py``
the whole fit, its checkpoint                                            ``fitting.py``, ``checkpoint.py``
=======================================================================  ==========================================
"""
