"""Files: data in, and the public names of the functions that read and write models.

=========================================  ============================================================
what                                       file
=========================================  ============================================================
svmlight text                              ``svmlight.py`` over ``text.py``, ``svmlight_loops.py``
.csv, .parquet, .npz                       ``tables.py``, ``npz.py``
kernel values                              ``kernel_values.py``
svm-scale's ranges                         ``ranges.py``
one sentence for whatever goes wrong       ``files.py``
every field of a header checked            ``schema.py``
limits on memory; writing whole files      ``memory.py``, ``outputs.py``
=========================================  ============================================================

Models are in ``maxmargin.models``. Names are loaded when they are first used, so that reading data loads no scikit-learn.
"""

from typing import TYPE_CHECKING

from maxmargin._lazy import lazy_names

_HOMES = {
    "Blocks": "maxmargin.scale_out.blocks",
    "MalformedFile": "maxmargin.io.files",
    "load_model": "maxmargin.models.model_file",
    "read_data": "maxmargin.io.tables",
    "read_liblinear": "maxmargin.models.liblinear",
    "read_libsvm": "maxmargin.models.libsvm",
    "read_svmlight": "maxmargin.io.svmlight",
    "save_model": "maxmargin.models.model_file",
    "stream_svmlight": "maxmargin.io.svmlight",
    "to_blocks": "maxmargin.scale_out.writing",
    "write_liblinear": "maxmargin.models.liblinear",
    "write_libsvm": "maxmargin.models.libsvm",
    "write_svmlight": "maxmargin.io.svmlight",
}

__all__ = [*_HOMES]

__getattr__, __dir__ = lazy_names(__name__, _HOMES)

if TYPE_CHECKING:
    from maxmargin.io.files import MalformedFile as MalformedFile
    from maxmargin.io.svmlight import read_svmlight as read_svmlight
    from maxmargin.io.svmlight import stream_svmlight as stream_svmlight
    from maxmargin.io.svmlight import write_svmlight as write_svmlight
    from maxmargin.io.tables import read_data as read_data
    from maxmargin.models.liblinear import read_liblinear as read_liblinear
    from maxmargin.models.liblinear import write_liblinear as write_liblinear
    from maxmargin.models.libsvm import read_libsvm as read_libsvm
    from maxmargin.models.libsvm import write_libsvm as write_libsvm
    from maxmargin.models.model_file import load_model as load_model
    from maxmargin.models.model_file import save_model as save_model
    from maxmargin.scale_out.blocks import Blocks as Blocks
    from maxmargin.scale_out.writing import to_blocks as to_blocks
