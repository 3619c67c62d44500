"""The cache of compiled code forgives what another version of the package has left in it."""

from __future__ import annotations

import pickle

import pytest

from maxmargin.data.caching import CheckedFile, Damaged


class Moved:
    """A type that a cache file names, and that a later version of the package has elsewhere."""


def test_a_file_that_names_a_type_which_is_no_longer_there_counts_as_absent(tmp_path, monkeypatch):
    file = CheckedFile(str(tmp_path), "loop", "stamp")
    file._save_index({"signature": Moved})
    assert file._load_index() == {"signature": Moved}
    monkeypatch.delattr(f"{__name__}.Moved")
    assert file._load_index() == {}
    with pytest.raises(Damaged):
        file._load(file._index_path)
    assert issubclass(Damaged, OSError)  # which Numba takes for a file that is not there


def test_what_can_be_unpickled_and_is_not_ours_is_damaged(tmp_path):
    file = CheckedFile(str(tmp_path), "loop", "stamp")
    (tmp_path / "other").write_bytes(pickle.dumps({}))
    with pytest.raises(Damaged):
        file._load(str(tmp_path / "other"))
