"""The gradients of one encoder: of its matrices, and of its residual stream. Nothing that is shared is written to."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Float64, Int
from torch import Tensor, nn

from explorer.model import Encoder
from explorer.tape import Tape, keep_all

MATRICES: Final = ("q", "k", "v", "out_proj", "linear1", "linear2")
"""The matrices of a layer. q, k and v are a third of `in_proj` each, as they are drawn."""

CHECKPOINTS: Final = ("resid_pre", "resid_mid", "resid_post")
"""Where the stream of a layer is read: as it enters, after attention, as it leaves."""

Loss = Callable[[Tensor], Tensor]
"""From the output of an encoder, `[batch, pos, d_model]`, to one number."""


class GradientTape(Tape):
    """Keeps values of a forward pass with their graph, to read the gradient of a loss at each of them.

    The values are handed on as they are: the output is bitwise that of a silent pass. One that no trained parameter has
    touched, such as what enters the first layer of a frozen encoder, becomes the start of the graph: a leaf with the
    same numbers. So it also reads an encoder whose parameters want no gradient, as those of `explorer.build` and
    `explorer.load` do.

    The gradients are returned, never left in `.grad`. Not `Tensor.retain_grad`: `torch.autograd.grad` fills it only on
    the way to a parameter, and no parameter of a layer lies before the entry of the stream.
    """

    def __init__(self, keep: Callable[[str], bool] = keep_all) -> None:
        self.values: dict[str, Tensor] = {}
        self._keep = keep
        self._prefix = ""

    def __call__(self, site: str, value: Tensor) -> Tensor:
        name = self._prefix + site
        if not self._keep(name):
            return value
        if not value.requires_grad:
            value = value.detach().requires_grad_()
        self.values[name] = value
        return value

    def scope(self, name: str) -> "GradientTape":
        inner = copy.copy(self)  # shallow: one record for all scopes
        inner._prefix = f"{self._prefix}{name}."
        return inner

    def gradients(self, loss: Float[Tensor, ""], parameters: Mapping[str, Tensor] | None = None) -> dict[str, Tensor]:
        """d loss / d value at each kept site, of the shape of the value; and of each parameter that is named.

        One backward pass, after which the graph is gone: it can be asked once.

        Raises:
            RuntimeError: If the forward pass had gradients switched off, or the loss does not depend on a value.
        """
        wanted = {**self.values, **(parameters or {})}
        return dict(zip(wanted, torch.autograd.grad(loss, list(wanted.values())), strict=True))


@dataclass(frozen=True, slots=True, eq=False)
class GradientNorms:
    """How large the gradients of one encoder are. Frobenius norms in float64, in units of the loss (nats).

    A norm of a matrix is how much the loss changes when the matrix moves by a length of 1 along its gradient. That of
    the stream is over all tokens together; `resid_post` of a layer is `resid_pre` of the next.
    """

    loss: float
    matrices: Float64[np.ndarray, "layer matrix"]
    """Columns as in `MATRICES`. Read-only."""
    stream: Float64[np.ndarray, "layer checkpoint"]
    """Columns as in `CHECKPOINTS`. Read-only."""

    def matrix(self, name: str) -> Float64[np.ndarray, " layer"]:
        """The norm of one of `MATRICES` in each layer.

        Raises:
            KeyError: If it is none of them.
        """
        if name not in MATRICES:
            raise KeyError(f"{name!r} is not one of {', '.join(MATRICES)}")
        return self.matrices[:, MATRICES.index(name)]

    def table(self) -> pd.DataFrame:
        """One row a layer and a matrix or checkpoint: `layer`, `kind` (matrix | stream), `name`, `norm`."""
        parts = (("matrix", MATRICES, self.matrices), ("stream", CHECKPOINTS, self.stream))
        frames = [
            pd.DataFrame({"layer": np.arange(len(norms)), "kind": kind, "name": name, "norm": norms[:, column]})
            for kind, names, norms in parts
            for column, name in enumerate(names)
        ]
        return pd.concat(frames, ignore_index=True).sort_values("layer", kind="stable", ignore_index=True)


def gradient_norms(
    encoder: Encoder,
    token_ids: Int[Tensor, "batch pos"],
    key_padding_mask: Bool[Tensor, "batch pos"] | None,
    loss: Loss,
) -> GradientNorms:
    """The gradient norms of every matrix of every layer, and of the stream, for one batch and loss.

    The encoder may be shared: it is read, and neither its parameters nor their `.grad` are written. Embeddings, biases
    and norms are left out.

    Raises:
        RuntimeError: If the loss does not depend on the output, or is not one number.
    """
    with torch.enable_grad():  # in this thread, and put back at the end
        own = _with_gradients(encoder)
        tape = GradientTape(lambda site: site.endswith(CHECKPOINTS))
        value = loss(own(token_ids, key_padding_mask, tape=tape))
        parameters = {
            name: parameter
            for name, parameter in own.named_parameters()
            if name.startswith("layers.") and parameter.ndim == 2
        }
        found = tape.gradients(value, parameters)
    layers = range(len(own.layers))
    return GradientNorms(
        loss=float(value.detach()),
        matrices=_table_of_norms([_matrices(found, layer) for layer in layers]),
        stream=_table_of_norms([[found[f"layers.{layer}.{site}"] for site in CHECKPOINTS] for layer in layers]),
    )


def _with_gradients(encoder: Encoder) -> Encoder:
    """The same encoder with parameters of its own that want gradients. The numbers are shared, not copied."""
    own: dict[int, Any] = {id(buffer): buffer for buffer in encoder.buffers()}
    own |= {id(parameter): nn.Parameter(parameter.detach()) for parameter in encoder.parameters()}
    return copy.deepcopy(encoder, own)  # takes what is in `own` instead of copying it


def _matrices(found: Mapping[str, Tensor], layer: int) -> list[Tensor]:
    names = ("attn.in_proj", "attn.out_proj", "ff.linear1", "ff.linear2")
    in_proj, *others = (found[f"layers.{layer}.{name}.weight"] for name in names)
    return [*in_proj.chunk(3), *others]


def _table_of_norms(gradients: list[list[Tensor]]) -> np.ndarray:
    norms = [[float(torch.linalg.vector_norm(g, dtype=torch.float64)) for g in row] for row in gradients]
    table = np.array(norms)
    table.flags.writeable = False
    return table
