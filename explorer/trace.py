"""The frozen record of one run, read through named accessors."""

from collections.abc import Mapping
from typing import Literal

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from explorer.config import EncoderConfig
from explorer.model.attention import attention_mask, masked_scores, scaled_scores
from explorer.stats.shapes import parameters_and_flops
from explorer.tape import SITES, site_names

Array = np.ndarray
Point = Literal["pre", "mid", "post", "final"]
"""A place in a layer where the stream is read; `final` is after the final norm."""


def to_numpy(tensor: Tensor) -> np.ndarray:
    """The one border between tensors and arrays: detached, float32, on the CPU, read-only."""
    array = tensor.detach().to(device="cpu", dtype=torch.float32).numpy()
    array.flags.writeable = False
    return array


class Trace:
    """What a recorder kept of one forward pass. Read-only: nobody who holds a trace can change what another sees.

    `scores` need not be kept: they follow bit for bit from q and k on the device that made them. Values are in the
    precision of the run; accessors give float32.
    """

    __slots__ = ("_values", "causal", "config", "key_padding_mask")

    def __init__(
        self,
        values: Mapping[str, Tensor],
        config: EncoderConfig,
        key_padding_mask: Bool[Tensor, "batch key"] | None,
        *,
        causal: bool = False,
    ) -> None:
        """`key_padding_mask` is the mask that was used: None where no padding was masked."""
        object.__setattr__(self, "_values", dict(values))
        object.__setattr__(self, "config", config)
        object.__setattr__(self, "key_padding_mask", key_padding_mask)
        object.__setattr__(self, "causal", causal)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a trace is frozen: {name} cannot be set")

    config: EncoderConfig
    key_padding_mask: Tensor | None
    causal: bool
    _values: dict[str, Tensor]

    def pattern(self, layer: int | None = None) -> Float[Array, "*layer batch head query key"]:
        """Attention weights, after softmax. Rows sum to 1. All layers stacked where no layer is named."""
        return self._layers("attn.pattern", layer)

    def scores(self, layer: int) -> Float[Array, "batch head query key"]:
        """Scaled and masked scores, before softmax. Minus infinity at hidden keys: padding, later tokens if causal."""
        name = f"layers.{self._layer(layer)}.attn.scores"
        if name in self._values:
            return to_numpy(self._values[name])
        q, k = self._q_and_k(layer)
        with torch.inference_mode():
            return to_numpy(masked_scores(q, k, self._hidden(q.shape[2])))

    def raw_scores(self, layer: int) -> Float[Array, "batch head query key"]:
        """Scaled scores before masking: finite at every key, and `scores` bit for bit where nothing is hidden."""
        q, k = self._q_and_k(self._layer(layer))
        hidden = self._hidden(q.shape[2])
        kept = self._values.get(f"layers.{layer}.attn.scores")
        with torch.inference_mode():
            scores = scaled_scores(q, k)
            if kept is not None:  # of another device, which rounds in its own way
                scores = kept if hidden is None else torch.where(hidden, scores, kept)
            return to_numpy(scores)

    def hidden_keys(self) -> Bool[Array, "batch query key"]:
        """The mask that attention applied: which keys were hidden from which queries, in every layer and head."""
        batch, n_pos, _ = self._value("embed.sum").shape
        hidden = self._hidden(n_pos)
        array = np.zeros((1, 1, 1), dtype=bool) if hidden is None else hidden[:, 0].numpy()
        return np.broadcast_to(array, (batch, n_pos, n_pos))  # read-only, and no copy

    def _hidden(self, n_pos: int) -> Bool[Tensor, "#batch 1 #query key"] | None:
        return attention_mask(self.key_padding_mask, causal=self.causal, n_pos=n_pos)

    def _q_and_k(self, layer: int) -> tuple[Tensor, Tensor]:
        return self._value(f"layers.{layer}.attn.q"), self._value(f"layers.{layer}.attn.k")

    def q(self, layer: int | None = None) -> Float[Array, "*layer batch head query d_head"]:
        """Queries, one vector a head, not yet divided by sqrt(d_head)."""
        return self._layers("attn.q", layer)

    def k(self, layer: int | None = None) -> Float[Array, "*layer batch head key d_head"]:
        """Keys, one vector a head."""
        return self._layers("attn.k", layer)

    def v(self, layer: int | None = None) -> Float[Array, "*layer batch head key d_head"]:
        """Values, one vector a head."""
        return self._layers("attn.v", layer)

    def z(self, layer: int | None = None) -> Float[Array, "*layer batch head query d_head"]:
        """pattern @ v for each head, before `out_proj`."""
        return self._layers("attn.z", layer)

    def attn_out(self, layer: int | None = None) -> Float[Array, "*layer batch pos d_model"]:
        """What attention adds to the stream."""
        return self._layers("attn_out", layer)

    def hidden(self, layer: int | None = None) -> Float[Array, "*layer batch pos d_ff"]:
        """The feed-forward network's hidden values, after the activation."""
        return self._layers("ff.hidden", layer)

    def ff_out(self, layer: int | None = None) -> Float[Array, "*layer batch pos d_model"]:
        """What the feed-forward network adds to the stream."""
        return self._layers("ff_out", layer)

    def resid(
        self, point: Literal["pre", "mid", "post"], layer: int | None = None
    ) -> Float[Array, "*layer batch pos d_model"]:
        """The stream entering the layer (`pre`), the feed-forward sublayer (`mid`) or the next layer (`post`)."""
        return self._layers(f"resid_{_one_of(point, 'pre', 'mid', 'post')}", layer)

    def checkpoints(self) -> list[tuple[Point, int | None]]:
        """Where the stream is compared, in order: point and layer, as `stream` takes them.

        `pre` of layer 0, then `mid` and `post` of each layer, then `final` where there is a final norm. What enters a
        later layer is the `post` of the layer before. The same points for Pre-LN and Post-LN.
        """
        inside: list[tuple[Point, int | None]] = [
            (point, layer) for layer in range(self.config.n_layers) for point in ("mid", "post")
        ]
        after: list[tuple[Point, int | None]] = [("final", None)] if self.config.final_norm else []
        return [("pre", 0), *inside, *after]

    def stream(self, point: Point, layer: int | None = None) -> Float[Array, "batch pos d_model"]:
        """The stream at one checkpoint: see `checkpoints`."""
        return self.final_norm("out") if point == "final" else self.resid(point, layer)

    def norm(
        self, name: Literal["norm1", "norm2"], side: Literal["in", "out"], layer: int | None = None
    ) -> Float[Array, "*layer batch pos d_model"]:
        """What goes into a layer's norm, or comes out of it."""
        return self._layers(f"{_one_of(name, 'norm1', 'norm2')}.{_one_of(side, 'in', 'out')}", layer)

    def embedding(
        self, part: Literal["tokens", "positions", "segments", "sum", "norm.in", "norm.out"] = "sum"
    ) -> Float[Array, "batch pos d_model"]:
        """One part of the embeddings; `sum` is all parts together, before their norm where there is one.

        Raises:
            KeyError: If this architecture has no such part.
        """
        return to_numpy(self._value(f"embed.{part}"))

    def final_norm(self, side: Literal["in", "out"]) -> Float[Array, "batch pos d_model"]:
        """What goes into the norm after the stack, or comes out of it.

        Raises:
            KeyError: If this architecture has none.
        """
        return to_numpy(self._value(f"final_norm.{_one_of(side, 'in', 'out')}"))

    def tensor(self, site: str, layer: int | None = None) -> Float[Array, "*axes"]:
        """Any recorded value by its name in the catalogue `SITES`, for who lets a person choose one.

        A site of a layer is named without it, such as `attn.q`. Code that knows what it wants uses the other accessors.

        Raises:
            KeyError: If there is no such site in this architecture.
            IndexError: If there is no such layer.
        """
        if site in SITES:
            return to_numpy(self._value(site))
        if f"layers.*.{site}" not in SITES or layer is None:
            raise KeyError(f"{site} of layer {layer} is not in the catalogue")
        return self.scores(layer) if site == "attn.scores" else self._layers(site, layer)

    def sites(self) -> list[str]:
        """The recorded sites, and the scores that are computed on demand."""
        return site_names(self.config)

    def shapes(self) -> pd.DataFrame:
        """Every site in order: site, layer, axes, shape, bytes, parameters, flops (a multiply-add counts 2).

        Shapes are those of the recorded tensors. `layer` is <NA> before and after the stack.
        """
        batch, pos, _ = self._value("embed.sum").shape
        costs = parameters_and_flops(self.config, batch=batch, pos=pos)
        rows = []
        for site in self.sites():
            value = self._value(site.replace("scores", "pattern"))  # the same shape, and always kept
            _, layer, name = site.split(".", 2) if site.startswith("layers.") else ("", None, site)
            parameters, flops = costs.get(name, (0, 0))
            rows.append(
                {
                    "site": site,
                    "layer": None if layer is None else int(layer),
                    "axes": SITES[f"layers.*.{name}" if layer is not None else site],
                    "shape": tuple(value.shape),
                    "bytes": value.numel() * value.element_size(),
                    "parameters": parameters,
                    "flops": flops,
                }
            )
        return pd.DataFrame(rows).astype({"layer": "Int64"})

    @property
    def n_bytes(self) -> int:
        """Memory that this record holds. Sites that share storage count once."""
        storages = {value.untyped_storage().data_ptr(): value.untyped_storage() for value in self._values.values()}
        return sum(storage.nbytes() for storage in storages.values())

    def _layers(self, site: str, layer: int | None) -> Array:
        if layer is not None:
            return to_numpy(self._value(f"layers.{self._layer(layer)}.{site}"))
        every = [self._value(f"layers.{number}.{site}") for number in range(self.config.n_layers)]
        with torch.inference_mode():
            return to_numpy(torch.stack(every))

    def _layer(self, layer: int) -> int:
        if not 0 <= layer < self.config.n_layers:
            raise IndexError(f"layer {layer} does not exist; this run has layers 0 to {self.config.n_layers - 1}")
        return layer

    def _value(self, site: str) -> Tensor:
        if site not in self._values:
            raise KeyError(f"{site} was not recorded in this run")
        return self._values[site]


def _one_of(value: str, *options: str) -> str:
    if value not in options:
        raise ValueError(f"{value!r} is not one of {', '.join(options)}")
    return value
