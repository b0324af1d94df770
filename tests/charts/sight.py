"""How far apart two colours look, also to readers who are colour-blind."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_NORMAL = np.eye(3)
# Machado, Oliveira and Fernandes (2009), severity 1.0, for linear sRGB.
SIGHTS = {
    "normal": _NORMAL,
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
# Ottosson (2020): linear sRGB to the responses of the cones, and those to OKLab.
_CONES = np.array(
    [
        [0.4122214708, 0.5363325363, 0.0514459929],
        [0.2119034982, 0.6806995451, 0.1073969566],
        [0.0883024619, 0.2817188376, 0.6299787005],
    ]
)
_OKLAB = np.array(
    [
        [0.2104542553, 0.7936177850, -0.0040720468],
        [1.9779984951, -2.4285922050, 0.4505937099],
        [0.0259040371, 0.7827717662, -0.8086757660],
    ]
)


def distance(one: str, other: str, sight: str = "normal") -> float:
    """Distance in OKLab, where 0.02 is just noticeable side by side and 1 lies between black and white."""
    return float(np.linalg.norm(_seen(one, sight) - _seen(other, sight)))


def _seen(colour: str, sight: str) -> NDArray[np.float64]:
    parts = np.array([int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    seen: NDArray[np.float64] = _OKLAB @ np.cbrt(_CONES @ np.clip(SIGHTS[sight] @ linear, 0, 1))
    return seen
