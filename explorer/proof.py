"""Whether a run is what its equations say: each recomputed from what was recorded, with the difference left over."""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64

from explorer.claims import COARSE, ROUNDINGS, STEP, STORED, Claim, Residue
from explorer.errors import ConfigError
from explorer.loading import Model, Norm
from explorer.precision import dtype_of
from explorer.run import Run
from explorer.run import run as run_again
from explorer.stats.layernorm import layer_norm
from explorer.stats.residual import l2_norm
from explorer.trace import to_numpy
from explorer.twin import torch_twin

LINEAR: Final = "|x| |w| + |b|, x the longest input, w the longest row of weights"
NORM: Final = "|x| / scale · |γ| + |β|, because a token is divided by its scale = √(var + ε)"

TRAVELLED: Final = (
    "the largest output, plus the steps that it moves when each embedding moves by one, as rounding is passed on"
)

TRAVELLED_COARSE: Final = 4
"""How many 16-bit steps an output may be off, as each layer adds its own: 2.7 were the most seen.

In bfloat16 a fault of a small encoder can hide behind so much; the equation that it breaks finds it all the same.
"""

BLOCK: Final = 2**18
"""Weights held in float64 at once: one head of 512 tokens, 2 MiB."""

ACTIVATIONS: Final[dict[str, tuple[str, Callable[[np.ndarray], np.ndarray]]]] = {
    "relu": ("ReLU", lambda x: np.maximum(x, 0)),
    "gelu": ("GELU", lambda x: x / 2 * (1 + torch.erf(torch.from_numpy(x) / math.sqrt(2)).numpy())),
    "silu": ("SiLU", lambda x: x / (1 + np.exp(-x))),
}
"""Each activation: its name for people, and its formula."""

Accessor = Callable[..., np.ndarray]


@np.errstate(invalid="ignore", over="ignore")  # infinity and NaN in a broken run are found, not warned of
def proof(run: Run, model: Model) -> list[Claim]:
    """What must be true of this run, recomputed in float64 from its own record. The encoder is not asked again.

    All claims hold unless a number is wrong: one feature of one attn_out moved by 0.01 breaks the two equations that
    it stands in, and no other. What says nothing about this run is left out: padding where none is masked, later
    keys where they are not hidden, torch where heads are off, the CPU where it ran there.

    Raises:
        ConfigError: If the run is of another architecture than the model.
    """
    if run.config != model.config:
        raise ConfigError("the run is of another architecture than the model; give the model that made it")
    replay = _Replay(run, model)
    claims = [replay.rows_sum_to_1()]
    if run.trace.key_padding_mask is not None:
        claims.append(replay.padded_columns())
    if replay.later.any():
        claims.append(replay.later_columns())
    claims += [replay.projections(), replay.pattern(), replay.attn_out(), replay.hidden(), replay.ff_out()]
    claims += replay.residual()
    if run.config.n_layers > 1:
        claims.append(replay.handover())
    claims += replay.ends()
    if not run.heads_off:
        claims.append(replay.torch_agrees())
    if run.device != "cpu":
        claims.append(replay.cpu_agrees())
    return claims


class _Replay:
    """The claims about one run. Each goes layer by layer, so that little more than one layer is held in float64."""

    def __init__(self, run: Run, model: Model) -> None:
        self.run, self.model, self.trace, self.config = run, model, run.trace, run.config
        self.encoder = model.on("cpu", run.precision)
        self.read_rounded = run.precision == "float64"  # accessors give float32: a sum is of rounded terms
        self.layers = range(run.config.n_layers)
        self.pre = run.config.norm_placement == "pre"
        self.real: Bool[np.ndarray, "batch pos"] = ~run.batch.key_padding_mask.numpy()
        mask = run.trace.key_padding_mask
        self.keys: Bool[np.ndarray, "batch key"] = np.ones_like(self.real) if mask is None else ~mask.cpu().numpy()
        n_pos = self.real.shape[1]
        self.later: Bool[np.ndarray, "query key"] = np.triu(np.full((n_pos, n_pos), run.causal), k=1)

    def rows_sum_to_1(self) -> Claim:
        residue = Residue(self.run.precision)
        for layer in self.layers:
            sums = self.trace.pattern(layer).sum(axis=-1, dtype=np.float64)  # [batch, head, query]
            residue.add(sums.swapaxes(1, 2)[self.real], 1.0, 1.0)
        return residue.rounded(
            "Each row of attention sums to 1: Σₖ w[q, k] = 1.",
            "all weights of a row are divided by one sum, which is rounded too",
            roundings=2 * ROUNDINGS,
            coarse=1,
        )

    def padded_columns(self) -> Claim:
        residue = Residue(self.run.precision)
        for layer in self.layers:
            pattern = self.trace.pattern(layer)
            largest = np.maximum(pattern.max(axis=(1, 2)), -pattern.min(axis=(1, 2)))  # [batch, key]
            residue.add(largest[~self.keys], 0.0, 0.0)
        return residue.exact("No query looks at padding: w[q, k] = 0 for each padded key k.", "exp(−∞) is 0")

    def later_columns(self) -> Claim:
        residue = Residue(self.run.precision)
        for layer in self.layers:
            pattern = self.trace.pattern(layer)
            largest = np.maximum(pattern.max(axis=(0, 1)), -pattern.min(axis=(0, 1)))  # [query, key]
            residue.add(largest[self.later], 0.0, 0.0)
        return residue.exact("No query looks ahead: w[q, k] = 0 for each key k after q.", "exp(−∞) is 0")

    def projections(self) -> Claim:
        residue = Residue(self.run.precision)
        for layer in self.layers:
            found = [self.heads(part(layer)) for part in (self.trace.q, self.trace.k, self.trace.v)]
            linear = f"layers.{layer}.attn.in_proj"
            self._add_linear(residue, np.concatenate(found, axis=-1), self._read("norm1", layer), linear)
        read = "LN₁(resid_pre)" if self.pre else "resid_pre"
        return residue.rounded(
            f"Queries, keys and values are projections: [q k v] = {read} · W + b.", LINEAR, stored=STORED
        )

    def pattern(self) -> Claim:
        residue = Residue(self.run.precision)
        root = math.sqrt(self.config.d_head)
        for layer in self.layers:
            all_q, all_k, pattern = self.trace.q(layer), self.trace.k(layer), self.trace.pattern(layer)
            for sentence, heads in self._blocks():
                queries, keys = self.real[sentence], self.keys[sentence]
                q = all_q[sentence, heads][:, queries].astype(np.float64)
                k = all_k[sentence, heads][:, keys].astype(np.float64)
                found = pattern[sentence, heads][:, queries][:, :, keys]
                hidden = self.later[queries][:, keys]
                size = 1 + _longest(q) * _longest(k) / root
                stored = (1 + float((np.abs(q) @ np.abs(k).swapaxes(-2, -1)).max()) / root) / 2
                residue.add(
                    found, _softmax(np.where(hidden, -np.inf, q @ k.swapaxes(-2, -1) / root)), size, stored=stored
                )
        return residue.rounded(
            "Weights are the softmax of scores: w = softmax(q · k / √d_head), over the keys that are not hidden.",
            "1 + |q| |k| / √d_head, because what a score is off its weight is off too",
            coarse=1,
            stored="½ + ½ Σ |qᵢ kᵢ| / √d_head, because a weight moves by half of what a score is off, or less",
        )

    def attn_out(self) -> Claim:
        residue = Residue(self.run.precision)
        for layer in self.layers:
            pattern, v = self.trace.pattern(layer), self.trace.v(layer)
            z = np.zeros(v.shape)
            for sentence, heads in self._blocks():
                z[sentence, heads] = pattern[sentence, heads].astype(np.float64) @ v[sentence, heads]
            z[:, [head for number, head in self.run.heads_off if number == layer]] = 0
            found = self.heads(self.trace.z(layer))
            residue.add(found, self.heads(z), float(np.abs(v).max()), stored=float(np.abs(found).max()))
            linear = f"layers.{layer}.attn.out_proj"
            self._add_linear(residue, self.tokens(self.trace.attn_out(layer)), found, linear)
        off = ", with z = 0 for each head that is off" if self.run.heads_off else ""
        return residue.rounded(
            f"Weights times values, projected, are attn_out: attn_out = z · W_O + b_O, z = w · V{off}.",
            LINEAR,
            stored=STORED,
        )

    def hidden(self) -> Claim:
        residue = Residue(self.run.precision)
        name, activation = ACTIVATIONS[self.config.activation]
        for layer in self.layers:
            linear = f"layers.{layer}.ff.linear1"
            self._add_linear(
                residue, self.tokens(self.trace.hidden(layer)), self._read("norm2", layer), linear, activation
            )
        read = "LN₂(resid_mid)" if self.pre else "resid_mid"
        return residue.rounded(
            f"Hidden values are activations: hidden = {name}({read} · W₁ + b₁).", LINEAR, stored=STORED
        )

    def ff_out(self) -> Claim:
        residue = Residue(self.run.precision)
        for layer in self.layers:
            linear = f"layers.{layer}.ff.linear2"
            hidden = self.tokens(self.trace.hidden(layer))
            self._add_linear(residue, self.tokens(self.trace.ff_out(layer)), hidden, linear)
        return residue.rounded(
            "Hidden values, projected, are ff_out: ff_out = hidden · W₂ + b₂.", LINEAR, stored=STORED
        )

    def residual(self) -> list[Claim]:
        """The equations of the chosen placement."""
        trace = self.trace
        pre, mid, post = (partial(trace.resid, point) for point in ("pre", "mid", "post"))
        if self.pre:
            read1, read2 = (partial(trace.norm, name, "out") for name in ("norm1", "norm2"))
            return [
                self._norm("Attention reads norm1.out = LN₁(resid_pre).", "norm1", [pre], read1),
                self._sum(
                    "Attention adds to the stream: resid_mid = resid_pre + attn_out.", [pre, trace.attn_out], mid
                ),
                self._norm("Feed-forward reads norm2.out = LN₂(resid_mid).", "norm2", [mid], read2),
                self._sum(
                    "Feed-forward adds to the stream: resid_post = resid_mid + ff_out.", [mid, trace.ff_out], post
                ),
            ]
        return [
            self._norm(
                "Attention is added, then normalised: resid_mid = LN₁(resid_pre + attn_out).",
                "norm1",
                [pre, trace.attn_out],
                mid,
            ),
            self._norm(
                "Feed-forward is added, then normalised: resid_post = LN₂(resid_mid + ff_out).",
                "norm2",
                [mid, trace.ff_out],
                post,
            ),
        ]

    def handover(self) -> Claim:
        residue = Residue(self.run.precision)
        for layer in self.layers[:-1]:
            left, entered = self.trace.resid("post", layer), self.trace.resid("pre", layer + 1)
            residue.add(left[self.real], entered[self.real], 0.0)
        return residue.exact("Layers hand over the stream: resid_post[l] = resid_pre[l + 1].", "it is the same tensor")

    def ends(self) -> list[Claim]:
        """How the stream starts and ends, where that is a norm; an output without one is the stream itself."""
        trace, claims = self.trace, []
        if self.config.embedding_norm:
            embedded, entered = partial(trace.embedding, "sum"), partial(trace.resid, "pre", 0)
            claims.append(
                self._norm("The stream starts normalised: resid_pre[0] = LN(embeddings).", "embed", [embedded], entered)
            )
        last = partial(trace.resid, "post", self.layers[-1])
        if self.config.final_norm:
            claims.append(
                self._norm("The output is normalised: output = LN(last resid_post).", "final", [last], self._output)
            )
        else:
            residue = Residue(self.run.precision)
            residue.add(self.run.output[self.real], last()[self.real], 0.0)
            claims.append(residue.exact("The output is the last resid_post.", "it is the same tensor"))
        return claims

    def torch_agrees(self) -> Claim:
        residue = Residue(self.run.precision)
        expected = self._twin_output(self.trace.resid("pre", 0))
        residue.add(self.tokens(self.run.output), expected, self._travelled(expected))
        return residue.rounded(
            "torch.nn.TransformerEncoder, given the same weights, has the same output.",
            TRAVELLED,
            coarse=TRAVELLED_COARSE,
        )

    def cpu_agrees(self) -> Claim:
        residue = Residue(self.run.precision)
        on_cpu = run_again(
            self.model,
            self.run.batch,
            use_mask=self.run.use_mask,
            causal=self.run.causal,
            precision=self.run.precision,
            heads_off=self.run.heads_off,
        )
        travelled = self._travelled(self._twin_output(self.trace.resid("pre", 0)))
        residue.add(self.tokens(self.run.output), self.tokens(on_cpu.output), travelled)
        return residue.rounded(f"The CPU has the same output as {self.run.device}.", TRAVELLED, coarse=TRAVELLED_COARSE)

    def tokens(self, x: Float[np.ndarray, "batch pos feature"]) -> Float64[np.ndarray, "real feature"]:
        """The real tokens of all sentences."""
        return x[self.real].astype(np.float64)

    def heads(self, x: Float[np.ndarray, "batch head pos d_head"]) -> Float64[np.ndarray, "real d_model"]:
        """The real tokens of all sentences, their heads side by side."""
        return self.tokens(x.transpose(0, 2, 1, 3).reshape(*self.real.shape, -1))

    def _output(self) -> np.ndarray:
        return self.run.output

    def _read(self, norm: Literal["norm1", "norm2"], layer: int) -> Float64[np.ndarray, "real d_model"]:
        """What the sublayer after this norm (Pre-LN), or before it (Post-LN), reads."""
        if self.pre:
            return self.tokens(self.trace.norm(norm, "out", layer))
        return self.tokens(self.trace.resid("pre" if norm == "norm1" else "mid", layer))

    def _twin_output(self, embedded: Float[np.ndarray, "batch pos d_model"]) -> Float64[np.ndarray, "real d_model"]:
        """What `torch.nn.TransformerEncoder` makes of these embeddings."""
        padding = None if self.keys.all() else torch.from_numpy(~self.keys)
        later = torch.from_numpy(self.later) if self.run.causal else None
        with torch.inference_mode():
            twin = torch_twin(self.model, self.run.precision)
            x = torch.tensor(embedded, dtype=dtype_of(self.run.precision))
            output = twin(x, mask=later, src_key_padding_mask=padding)
        return self.tokens(to_numpy(output))

    def _travelled(self, output: Float64[np.ndarray, "real d_model"]) -> float:
        """The size of the output, and how many steps it moves when each embedding moves by one, up or down."""
        embedded = self.trace.resid("pre", 0)
        step, _ = COARSE.get(self.run.precision, (STEP, ""))
        steps = np.random.default_rng(0).choice(np.array([-step, step], dtype=np.float32), size=embedded.shape)
        moved = self._twin_output(embedded * (1 + steps))
        return float(np.abs(output).max() + np.abs(moved - output).max() / step)

    def _blocks(self) -> Iterator[tuple[int, slice]]:
        """Sentences and groups of heads, few enough for `BLOCK`."""
        n_sentences, n_pos = self.real.shape
        size = max(1, BLOCK // n_pos**2)
        for sentence in range(n_sentences):
            for head in range(0, self.config.n_heads, size):
                yield sentence, slice(head, head + size)

    def _norm(self, claim: str, name: Norm, terms: Sequence[Accessor], after: Accessor) -> Claim:
        """`after` is the norm of the sum of `terms`: in every layer, or once where it is not the norm of a layer."""
        residue = Residue(self.run.precision)
        for layer in self.layers if name in ("norm1", "norm2") else [None]:
            at = () if layer is None else (layer,)
            parts = [self.tokens(term(*at)) for term in terms]
            x = np.sum(parts, axis=0)
            gamma, beta, eps = self.model.norm_parameters(name, layer, self.run.precision)
            scale = np.sqrt(x.var(axis=-1) + eps)
            largest = np.sum(np.abs(parts), axis=0) if self.read_rounded else np.abs(x)
            size = (largest.max(axis=-1) / scale).max() * np.abs(gamma).max() + np.abs(beta).max()
            residue.add(self.tokens(after(*at)), layer_norm(x, gamma, beta, eps), float(size))
        return residue.rounded(claim, NORM)

    def _add_linear(
        self,
        residue: Residue,
        found: Float64[np.ndarray, "real n_out"],
        x: Float64[np.ndarray, "real n_in"],
        name: str,
        activation: Callable[[np.ndarray], np.ndarray] = lambda x: x,
    ) -> None:
        """`found` is what the linear layer of this name, and an activation, make of x. None is steeper than 1.13."""
        weight = to_numpy(self.encoder.get_parameter(f"{name}.weight"))
        bias = to_numpy(self.encoder.get_parameter(f"{name}.bias")) if self.config.bias else np.zeros(1)
        size = _longest(x) * _longest(weight) + float(np.abs(bias).max())
        made = x @ weight.astype(np.float64).T + bias
        stored = float(np.abs(made).max() + np.abs(bias).max())
        residue.add(found, activation(made), size, stored=stored)

    def _sum(self, claim: str, terms: Sequence[Accessor], after: Accessor) -> Claim:
        residue = Residue(self.run.precision)
        for layer in self.layers:
            parts = [self.tokens(term(layer)) for term in terms]
            total = np.sum(parts, axis=0)
            largest = np.sum(np.abs(parts), axis=0) if self.read_rounded else np.abs(total)
            residue.add(self.tokens(after(layer)), total, float(largest.max()))
        of = "the terms, which are rounded as the sum is" if self.read_rounded else "the sum, which is rounded once"
        return residue.rounded(claim, of, roundings=1, coarse=1)


def _longest(x: Float[np.ndarray, "*axes feature"]) -> float:
    return float(l2_norm(x).max())


def _softmax(scores: Float64[np.ndarray, "*axes key"]) -> Float64[np.ndarray, "*axes key"]:
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)
