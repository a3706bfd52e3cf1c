"""Colours of options, as people see them who lack one kind of cone.

Simulated by the matrices of Machado, Oliveira and Fernandes (2009) at full severity; distances are
CIE76 in CIELAB. About 2.3 is just noticeable.
"""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from numpy.typing import NDArray

from .refresh_vendor import VENDOR

SEEN: dict[str, list[list[float]]] = {
    "all cones": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
WHITE = TO_XYZ.sum(axis=1)

Colours = NDArray[np.float64]


def palettes() -> list[list[str]]:
    """Return the colours of options in the light and the dark theme, with that of the others."""
    source = (VENDOR.parent / "palette.js").read_text(encoding="utf-8")
    options = re.findall(r"options: \[(.*?)\]", source)
    others = re.findall(r'others: "(#\w+)"', source)
    return [[*re.findall(r"#\w+", line), last] for line, last in zip(options, others, strict=True)]


def seen_as(colours: list[str], cones: str) -> Colours:
    """Return colours in CIELAB."""
    parts = np.array([[int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in colours]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    xyz = np.clip(linear @ np.array(SEEN[cones]).T, 0, 1) @ TO_XYZ.T / WHITE
    cube = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    x, y, z = cube.T
    return np.stack([116 * y - 16, 500 * (x - y), 200 * (y - z)], axis=1)


@pytest.mark.parametrize("cones", SEEN)
@pytest.mark.parametrize("theme", [0, 1])
def test_colours_can_be_told_apart(theme: int, cones: str) -> None:
    colours = palettes()[theme]
    assert len(colours) == 9
    lab = seen_as(colours, cones)
    nearest = min(
        (float(np.linalg.norm(lab[i] - lab[j])), colours[i], colours[j])
        for i, j in itertools.combinations(range(9), 2)
    )
    assert nearest[0] > 12, nearest
