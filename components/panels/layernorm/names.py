"""One norm of a run: its name on the page, its parameters, and what goes into it and comes out."""

import numpy as np

from components.panels.look import Look
from explorer.loading import Norm


def norm_name(norm: str, layer: object) -> str:
    """How a norm is called on the page: `L3 norm1`, `embedding norm`, `final norm`."""
    return {"embed": "embedding norm", "final": "final norm"}.get(norm) or f"L{layer} {norm}"


def parse(name: str) -> tuple[Norm, int | None]:
    """The opposite of `norm_name`."""
    where, _, kind = name.rpartition(" ")
    if kind == "norm":
        return "embed" if where == "embedding" else "final", None
    return "norm1" if kind == "norm1" else "norm2", int(where[1:])


def values_of(look: Look, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The chosen token before and after this norm, `[d_model]` each."""
    before, after = batch_values_of(look, name)
    return before[look.sentence, look.token], after[look.sentence, look.token]


def batch_values_of(look: Look, name: str) -> tuple[np.ndarray, np.ndarray]:
    """All tokens of all sentences before and after this norm, `[batch, pos, d_model]` each."""
    trace = look.run.trace
    norm, layer = parse(name)
    if norm == "embed":
        return trace.embedding("norm.in"), trace.embedding("norm.out")
    if norm == "final":
        return trace.final_norm("in"), trace.final_norm("out")
    assert layer is not None
    return trace.norm(norm, "in", layer), trace.norm(norm, "out", layer)


def parameters_of(look: Look, name: str) -> tuple[np.ndarray, np.ndarray, float]:
    """gamma, beta and eps of this norm, as the run used them."""
    norm, layer = parse(name)
    return look.answer.model.norm_parameters(norm, layer, look.run.precision)
