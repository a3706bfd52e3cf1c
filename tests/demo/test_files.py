"""Real files: texts that zlib suits best, and backups whose repetition it cannot see."""

from __future__ import annotations

import io
import lzma
import zipfile
import zlib
from itertools import cycle, islice
from pathlib import Path

import pytest

from coopbandits.core.errors import InputError
from coopbandits.demo.applications import (
    BYTES_PER_SECOND,
    NIGHT_BYTES,
    NIGHTS,
    OPTIONS,
    TEXT_BYTES,
    Measurement,
    backups,
    make_supply,
    measure,
    texts,
)


def test_texts_are_modules() -> None:
    first, second = islice(texts(cycle([b"import this\n" * 9000])), 2)
    assert len(first) == len(second) == TEXT_BYTES
    assert first.startswith(b"import this\n")


def test_nights_are_archives_that_differ_in_one_file() -> None:
    modules = [path.read_bytes() for path in sorted(Path(io.__file__).parent.glob("*.py"))[:60]]
    backup = next(backups(cycle(modules)))
    starts = [at for at in range(len(backup)) if backup.startswith(b"PK\x03\x04", at)]
    with zipfile.ZipFile(io.BytesIO(backup)) as last:  # zip files are read from the end
        members = last.namelist()
        kept = [last.read(name) for name in members[:-1]]
        assert all(each in modules for each in kept)
    assert len(starts) == NIGHTS * len(members)
    assert len(backup) > NIGHTS * NIGHT_BYTES


def test_a_supply_changes_its_kind_once_told() -> None:
    supply = make_supply(count=3)
    early = [supply.take() for _ in range(4)]
    assert early[3] == early[0]
    assert not any(each.startswith(b"PK") for each in early)
    supply.change()
    assert all(supply.take().startswith(b"PK") for _ in range(4))


def test_zlib_does_not_see_what_repeats_and_lzma_does() -> None:
    supply = make_supply(count=3)
    supply.change()
    for data in (supply.take() for _ in range(3)):
        assert len(zlib.compress(data)) > 0.95 * len(data)
        assert len(lzma.compress(data, preset=0)) < 0.35 * len(data)


def test_without_modules_there_is_nothing_to_compress(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="150000 bytes"):
        make_supply(tmp_path)


def test_a_reward_is_what_was_saved_less_what_it_took() -> None:
    assert Measurement(1000, 400, 0.0).reward == pytest.approx(0.6)
    assert Measurement(BYTES_PER_SECOND, 0, 0.25).reward == pytest.approx(0.75)
    assert Measurement(1000, 1000, 0.0).reward == 0.0
    assert Measurement(1000, 100, 10.0).reward == 0.0


@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_is_measured(option: str) -> None:
    data = b"the same again, " * 10_000
    found = measure(option, data)
    assert found.size == len(data)
    assert 0 < found.compressed < 0.02 * len(data)
    assert found.seconds > 0.0
    module = __import__({"zlib": "zlib", "bz2": "bz2", "lzma": "lzma"}[option.partition("-")[0]])
    assert module.decompress(OPTIONS[option](data)) == data
