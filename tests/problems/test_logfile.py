from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from coopbandits.core.errors import InputError
from coopbandits.problems.logfile import Table, read_log

NAN = float("nan")


def rows(table: Table) -> Any:
    return np.column_stack(list(table.values()))


def test_csv(tmp_path: Path) -> None:
    path = tmp_path / "log.CSV"
    path.write_text('\ufeffred, "the, green"\n1, NA\n\n2.5e-1,-3\nnan,\n'.replace(', "', ',"'))
    table = read_log(path)
    assert list(table) == ["red", "the, green"]
    np.testing.assert_array_equal(rows(table), [[1, NAN], [0.25, -3], [NAN, NAN]])


def test_one_arm_csv(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("only\r\n1\r\n\r\n2\r\n")
    table = read_log(str(path))
    assert list(table) == ["only"]
    assert rows(table).tolist() == [[1.0], [2.0]]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "empty"),
        ("\n\n", "empty"),
        ("a,b\n", "no rewards"),
        ("1,2\n3,4\n", "'1'.*first line"),
        ("a,\n3,4\n", "''.*first line"),
        ("a,a\n3,4\n", "'a' twice"),
        ("a,b\n3\n", r"1 cells.*row 2\b.* 2 arms"),
        ("a,b\n1,2\n3,no\n", "'no'.*row 3.*'b'"),
        ("a,b\n1,inf\n", "'inf'.*row 2.*'b'"),
        ("a\n1e999\n", "'1e999'.*row 2.*'a'"),
        ('a\n"1\n', "is no CSV text"),
    ],
)
def test_csv_refuses(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "log.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=sentence) as caught:
        read_log(path)
    assert repr(str(path)) in str(caught.value)


def test_binary_is_no_csv(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(b"\xff\xfe\x00a")
    with pytest.raises(InputError, match=r"CSV.*UTF-8"):
        read_log(path)


@pytest.mark.parametrize("name", ["log.xlsx", "log", "log.csv.gz"])
def test_unknown_ending(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"'.*\.csv.*\.parquet"):
        read_log(tmp_path / name)


@pytest.mark.parametrize("name", ["log.csv", "log.parquet"])
def test_missing_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match="does not exist"):
        read_log(tmp_path / name)
    (tmp_path / name).mkdir()
    with pytest.raises(InputError, match="does not exist"):
        read_log(tmp_path / name)


def test_unreadable_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: Any, **_kwargs: Any) -> None:
        raise PermissionError(13, "Permission denied")

    path = tmp_path / "log.csv"
    path.write_text("a\n1\n")
    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(InputError, match="Permission denied"):
        read_log(path)


def write(path: Path, columns: dict[str, Any]) -> Path:
    path.parent.mkdir(exist_ok=True)
    parquet.write_table(pa.table(columns), path)
    return path


def test_parquet(tmp_path: Path) -> None:
    columns = {
        "float": pa.array([0.5, None, NAN]),
        "whole": pa.array([1, 2, None]),
        "truth": pa.array([True, False, None]),
        "__index_level_0__": pa.array(["x", "y", "z"]),
    }
    table = read_log(write(tmp_path / "arm=1" / "log.parquet", columns))
    assert list(table) == ["float", "whole", "truth"]
    np.testing.assert_array_equal(rows(table), [[0.5, 1, 1], [NAN, 2, 0], [NAN, NAN, NAN]])


def test_columns_of_text(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("variant,click\nblue,1\nNA,0\ngreen,\n")
    table = read_log(path)
    assert table["variant"].tolist() == ["blue", None, "green"]
    np.testing.assert_array_equal(table["click"], [1, 0, NAN])
    for kind in (pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())):
        columns = {"variant": pa.array(["blue", None]).cast(kind), "click": [1, 0]}
        table = read_log(write(tmp_path / "log.parquet", columns))
        assert table["variant"].tolist() == ["blue", None]
        assert table["click"].tolist() == [1.0, 0.0]


def test_parquet_refuses(tmp_path: Path) -> None:
    day = pa.array([None, 1], pa.date32())
    dated = write(tmp_path / "dated.parquet", {"a": [1.0, 2.0], "b": day})
    with pytest.raises(InputError, match=r"date32.*row 1.*'b'"):
        read_log(dated)
    rowless = write(tmp_path / "rowless.parquet", {"a": pa.array([], pa.float64())})
    with pytest.raises(InputError, match="empty"):
        read_log(rowless)
    twins = tmp_path / "twins.parquet"
    parquet.write_table(pa.table([[1.0], [2.0]], names=["a", "a"]), twins)
    with pytest.raises(InputError, match="'a' twice"):
        read_log(twins)


@pytest.mark.parametrize("content", [b"", b"a,b\n1,2\n"])
def test_not_parquet(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "log.parquet"
    path.write_bytes(content)
    with pytest.raises(InputError, match="no parquet"):
        read_log(path)


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "log.parquet", {"a": [1.0]})
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"pip install 'coopbandits\[parquet\]'"):
        read_log(path)
