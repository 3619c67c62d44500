"""Models in files: our own format, LIBLINEAR's and LIBSVM's; checkpoints; and the judgement of a model that was read.

=============================================  ====================================================================
what                                           file
=============================================  ====================================================================
our own models: safetensors and a digest       ``model_file.py``, ``tensors.py``; a layout for each estimator
every field of a header checked before use     ``headers.py`` over ``maxmargin.io.schema``
LIBLINEAR's and LIBSVM's models                ``liblinear.py``, ``libsvm.py`` over ``text_lines.py``
checkpoints of a fit under way                 ``checkpoint.py``
the certificate of a model that was read       ``proof.py``, ``kernel_proof.py``
ONNX graphs and a bound on their change        ``onnx.py``, ``onnx_graphs.py``, ``onnx_bounds.py``
=============================================  ====================================================================
"""
