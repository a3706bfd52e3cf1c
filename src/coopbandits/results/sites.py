"""What is said about sites that differ."""

from __future__ import annotations

import xarray as xr

DIFFERENT = 1.5
"""From this ratio on, sites that scatter so much more than chance makes them are spoken of."""


def warning(dataset: xr.Dataset) -> str:
    """Return a sentence where sites differ more than by chance, else nothing."""
    if "site_ratio" not in dataset:
        return ""
    ratio = float(dataset["site_ratio"].median())
    if not ratio > DIFFERENT:
        return ""
    spread = float(dataset["site_spread"].median())
    return (
        f"Sites differ: their means scatter {ratio:.3g} times as much as by chance, with a spread "
        f"of {spread:.2g}, so to pool them may be worse than not to talk; compare spread=estimate."
    )
