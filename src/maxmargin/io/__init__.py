"""Files: svmlight text and tables, models of our own, of LIBLINEAR's and of LIBSVM's."""

from maxmargin.io.files import MalformedFile
from maxmargin.io.model_file import load_model, save_model
from maxmargin.io.svmlight import read_svmlight, stream_svmlight, write_svmlight
from maxmargin.io.tables import read_data
from maxmargin.io.text_models import read_liblinear, read_libsvm, write_liblinear, write_libsvm

__all__ = [
    "MalformedFile",
    "load_model",
    "read_data",
    "read_liblinear",
    "read_libsvm",
    "read_svmlight",
    "save_model",
    "stream_svmlight",
    "write_liblinear",
    "write_libsvm",
    "write_svmlight",
]
