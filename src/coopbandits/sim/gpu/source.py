"""Sources of kernels put together: one text per program, with what is fixed before it compiles."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

KERNELS = Path(__file__).parent / "kernels"

INCLUDE = re.compile(r'^#include "(\w+\.h)"$', re.MULTILINE)


def program(files: tuple[str, ...], constants: Mapping[str, int], index: str = "") -> str:
    """Return one source of some files, without what `device.h` or `host.h` has to say.

    `constants` are defined first; `index` stands for the file `index.h`.
    """
    seen: set[str] = set()

    def included(found: re.Match[str]) -> str:
        name = found.group(1)
        if name in seen:
            return ""
        seen.add(name)
        return INCLUDE.sub(included, index if name == "index.h" else text_of(name))

    defines = "".join(f"#define {name} {value}\n" for name, value in constants.items())
    return defines + "".join(INCLUDE.sub(included, text_of(name)) for name in files)


@cache
def text_of(name: str) -> str:
    """Return one file of the sources."""
    return (KERNELS / name).read_text(encoding="utf-8").replace("#pragma once\n", "")
