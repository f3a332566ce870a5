"""The layers x heads grid: every head of one sentence in one canvas, one of them chosen."""

from .mount import attention_grid, read_pick, read_probe
from .payload import MAX_CELLS, pack, pool, read_header
from .score import GridScore

__all__ = ["MAX_CELLS", "GridScore", "attention_grid", "pack", "pool", "read_header", "read_pick", "read_probe"]
