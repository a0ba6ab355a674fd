"""Draws `extension/icons/*.png`: a rounded cell with a page corner inside. Standard library only, same bytes each run.

python extension/tools/draw_icons.py
"""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

OUTPUT = Path(__file__).resolve().parent.parent / "icons"
SIZES = (16, 32, 48, 128)  # pixels; what Chrome asks for in toolbar, menus and the extensions page
SAMPLES = 4  # subsamples an axis: smooth edges without a drawing library
TEAL, LIGHT, CLEAR = (13, 116, 122, 255), (255, 255, 255, 255), (0, 0, 0, 0)


def colour(x: float, y: float) -> tuple[int, int, int, int]:
    """The colour at a point of the unit square."""
    if not _rounded(x, y, 0.02, 0.98, 0.24):
        return CLEAR
    ring = _rounded(x, y, 0.17, 0.83, 0.15) and not _rounded(x, y, 0.27, 0.73, 0.07)
    core = _rounded(x, y, 0.39, 0.61, 0.05)
    bars = ring and not (0.43 < x < 0.57 and y < 0.5)  # one gap: the single way out
    return LIGHT if bars or core else TEAL


def _rounded(x: float, y: float, low: float, high: float, radius: float) -> bool:
    if not (low <= x <= high and low <= y <= high):
        return False
    dx = max(low + radius - x, x - (high - radius), 0.0)
    dy = max(low + radius - y, y - (high - radius), 0.0)
    return dx * dx + dy * dy <= radius * radius


def draw(size: int) -> bytes:
    """A PNG of `size` pixels square."""
    rows = bytearray()
    for row in range(size):
        rows.append(0)  # filter: none
        for column in range(size):
            total = [0, 0, 0, 0]
            for i in range(SAMPLES * SAMPLES):
                x = (column + (i % SAMPLES + 0.5) / SAMPLES) / size
                y = (row + (i // SAMPLES + 0.5) / SAMPLES) / size
                r, g, b, a = colour(x, y)
                total = [total[0] + r * a, total[1] + g * a, total[2] + b * a, total[3] + a]
            alpha = total[3]
            rows += bytes([*((t // alpha if alpha else 0) for t in total[:3]), alpha // (SAMPLES * SAMPLES)])
    header = struct.pack(">IIBBBBB", size, size, 8, 6, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in ((b"IHDR", header), (b"IDAT", zlib.compress(bytes(rows), 9)), (b"IEND", b""))
    )


if __name__ == "__main__":
    OUTPUT.mkdir(exist_ok=True)
    for pixels in SIZES:
        (OUTPUT / f"{pixels}.png").write_bytes(draw(pixels))
