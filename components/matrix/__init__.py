"""A matrix with names on both sides, drawn on a canvas: as a map of colours, or as lines from row to column."""

from components.matrix.mount import matrix_canvas, read_pick
from components.matrix.payload import CLEAR, Matrix, Side, clear_end, pack_matrix, packed_values

__all__ = ["CLEAR", "Matrix", "Side", "clear_end", "matrix_canvas", "pack_matrix", "packed_values", "read_pick"]
