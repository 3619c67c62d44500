"""Models in files: our own format, LIBLINEAR's and LIBSVM's; checkpoints; and the judgement of a model that was read.

``model_file`` reads and writes our own (safetensors and a digest): ``layouts`` says which tensors a model has, ``headers``
and ``schema``
check every field.
"""
