"""Files are written whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from coopbandits.core.errors import InputError
from coopbandits.plots.writing import write_files, write_text


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_write_text(tmp_path: Path) -> None:
    write_text(tmp_path / "new" / "a.txt", "λ")
    assert (tmp_path / "new" / "a.txt").read_text(encoding="utf-8") == "λ"
    assert names(tmp_path / "new") == {"a.txt"}


def test_a_folder_where_a_file_should_be(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    with pytest.raises(InputError, match=r"b\b.*folder"):
        write_files({tmp_path / "a": b"1", tmp_path / "b": b"2"})
    assert names(tmp_path) == {"b"}
