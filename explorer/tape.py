"""The tape: how a forward pass is watched without being changed.

A forward pass is given a tape and calls it beside each value worth seeing: `q = tape("q", q)`. The silent tape
hands the value back; a recorder also keeps a detached view of it. The model never asks which one it was given, so
there is one code path, and two threads that share a model cannot read each other's tensors.
"""

import copy
from collections.abc import Callable, Collection
from typing import Final

import torch
from jaxtyping import Float
from torch import Tensor

from explorer.config import EncoderConfig

SITES: Final[dict[str, str]] = {
    "embed.tokens": "batch pos d_model",
    "embed.positions": "batch pos d_model",
    "embed.segments": "batch pos d_model",
    "embed.sum": "batch pos d_model",
    "embed.norm.in": "batch pos d_model",
    "embed.norm.out": "batch pos d_model",
    "layers.*.resid_pre": "batch pos d_model",
    "layers.*.norm1.in": "batch pos d_model",
    "layers.*.norm1.out": "batch pos d_model",
    "layers.*.attn.q": "batch head query d_head",
    "layers.*.attn.k": "batch head key d_head",
    "layers.*.attn.v": "batch head key d_head",
    "layers.*.attn.scores": "batch head query key",
    "layers.*.attn.pattern": "batch head query key",
    "layers.*.attn.z": "batch head query d_head",
    "layers.*.attn_out": "batch pos d_model",
    "layers.*.resid_mid": "batch pos d_model",
    "layers.*.norm2.in": "batch pos d_model",
    "layers.*.norm2.out": "batch pos d_model",
    "layers.*.ff.hidden": "batch pos d_ff",
    "layers.*.ff_out": "batch pos d_model",
    "layers.*.resid_post": "batch pos d_model",
    "final_norm.in": "batch pos d_model",
    "final_norm.out": "batch pos d_model",
}
"""Every recorded value: site name to axes. `*` stands for the layer number. The one catalogue of the project."""


def site_names(config: EncoderConfig) -> list[str]:
    """The sites that a forward pass of this architecture visits, with layer numbers, catalogue order in each layer."""
    absent = {
        "embed.positions": config.positions == "none",
        "embed.segments": config.n_segments == 0,
        "embed.norm.in": not config.embedding_norm,
        "embed.norm.out": not config.embedding_norm,
        "final_norm.in": not config.final_norm,
        "final_norm.out": not config.final_norm,
    }
    before = [site for site in SITES if site.startswith("embed.") and not absent.get(site)]
    inside = [site for site in SITES if site.startswith("layers.")]
    after = [site for site in SITES if site.startswith("final_norm.") and not absent[site]]
    layers = [site.replace("*", str(layer)) for layer in range(config.n_layers) for site in inside]
    return before + layers + after


class Tape:
    """The silent tape: hands every value back and keeps nothing."""

    def __call__(self, site: str, value: Tensor) -> Tensor:
        return value

    def scope(self, name: str) -> "Tape":
        """A tape that writes below `name`: site `q` in scope `attn` is `attn.q`."""
        return self


SILENT: Final = Tape()


def keep_all(site: str) -> bool:
    """Keep every site."""
    return True


class Recorder(Tape):
    """Keeps a detached view of each value whose site `keep` accepts.

    It copies nothing and computes nothing: the views share storage with the tensors of the forward pass, which is
    why `explorer.model` has no in-place operation.
    """

    def __init__(self, keep: Callable[[str], bool] = keep_all) -> None:
        self.values: dict[str, Tensor] = {}
        self._keep = keep
        self._prefix = ""

    def __call__(self, site: str, value: Tensor) -> Tensor:
        name = self._prefix + site
        if self._keep(name):
            self.values[name] = value.detach()
        return value

    def scope(self, name: str) -> "Recorder":
        inner = copy.copy(self)  # shallow: one record for all scopes
        inner._prefix = f"{self._prefix}{name}."
        return inner


class HeadsOff(Recorder):
    """Records a forward pass in which some heads, given as (layer, head), add nothing.

    Their z is 0 where the pass goes on, and so in the record; their patterns stay as computed. What is left of
    attention when all heads of a layer are off is the bias of `out_proj`.
    """

    def __init__(self, off: Collection[tuple[int, int]], keep: Callable[[str], bool] = keep_all) -> None:
        super().__init__(keep)
        self._off: dict[str, list[int]] = {}
        for layer, head in off:
            self._off.setdefault(f"layers.{layer}.attn.z", []).append(head)

    def __call__(self, site: str, value: Tensor) -> Tensor:
        heads = self._off.get(self._prefix + site)
        return super().__call__(site, value if heads is None else without(value, heads))


def without(z: Float[Tensor, "batch head query d_head"], heads: list[int]) -> Float[Tensor, "batch head query d_head"]:
    """The same numbers, 0 in these heads. A new tensor: the one that is given stays as it is."""
    off = torch.zeros(z.shape[1], dtype=torch.bool)
    off[heads] = True
    return torch.where(off.to(z.device)[:, None, None], 0.0, z)
