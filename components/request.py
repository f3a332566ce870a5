"""What a reader asked for, as one hashable value, and the run that answers it."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

from components.address import NUMBER
from explorer import CLASSROOM, MINILM, MINILM_PRELN, EncoderConfig, WeightsError
from explorer.precision import Precision
from explorer.text import Batch, PaddingSide
from explorer.weights.seeded import Initialisation

Source = Literal["minilm", "minilm-preln", "built", "lab"]
TRAINED: Final = {"minilm": MINILM, "minilm-preln": MINILM_PRELN}
"""Encoders whose parameters are loaded: the published one, Post-LN, and its Pre-LN twin. They share a tokenizer."""


XAVIER: Final[Initialisation] = "xavier"
"""What an encoder that is not drawn here goes by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The settings of one run. `layers` below a trained encoder's depth means its first layers."""

    source: Source
    config: EncoderConfig
    seed: int
    """Of what is built. Of what was trained in the laboratory the number that it got: no two have the same."""
    init: Initialisation
    text: str
    pad_to: int
    """Number of tokens; 0 means the longest sentence."""
    pad_side: PaddingSide
    mask: bool
    device: str
    causal: bool = False
    precision: Precision = "float32"
    off: tuple[tuple[int, int], ...] = ()
    """Heads, as (layer, head), that add nothing."""

    @property
    def model_key(self) -> Hashable:
        """What fixes the parameters."""
        loaded = self.source in TRAINED
        return (self.source, self.config) if loaded else (self.source, self.config, self.seed, self.init)

    def run_key(self, batch: Batch) -> Hashable:
        """What fixes every number and every label of the run: parameters, token ids, mask, device, letters.

        Two texts may be the same tokens, such as `A` and `a`. A run carries its text, so they are two runs: nobody
        must see what somebody else typed.
        """
        ids, mask = batch.token_ids.numpy(), batch.key_padding_mask.numpy()
        read = batch.sentences, ids.shape, ids.tobytes(), mask.tobytes()
        return self.model_key, *read, self.mask, self.causal, self.device, self.precision, self.off


RUNS: Final = ("A", "B")
"""The run that was kept, and the one that the controls ask for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two requests whose runs are compared. Differences are those of the second less the first."""

    names: tuple[str, str]
    a: Request
    b: Request
    asked: Request
    """The one of them that the controls ask for."""


def request_of(values: Mapping[str, Any], trained: EncoderConfig | None = None) -> Request:
    """The request that these parameters make. `trained` is the encoder of the laboratory that they mean, if they do.

    Raises:
        ConfigError: If the architecture cannot be built.
    """
    source: Source = values["source"]
    seed, init = 0, XAVIER
    if source in TRAINED:
        config = trained_config(source, values["layers"] or TRAINED[source].n_layers)
    elif source == "lab":
        if trained is None:
            raise WeightsError("No encoder was trained in this session. Train one in the laboratory.")
        config, seed = trained, values[NUMBER]
    else:
        config, seed, init = _built_config(values), values["seed"], values["init"]
    return Request(
        source=source,
        config=config,
        seed=seed,
        init=init,
        text=values["text"],
        pad_to=values["pad_to"],
        pad_side=values["pad_side"],
        mask=values["mask"],
        causal=values["causal"],
        device=values["device"],
        precision=values["precision"],
        off=existing(values["off"], config),
    )


def existing(heads: Iterable[tuple[int, int]], config: EncoderConfig) -> tuple[tuple[int, int], ...]:
    """Those of these heads, as (layer, head), that this encoder has."""
    return tuple((layer, head) for layer, head in heads if layer < config.n_layers and head < config.n_heads)


def _built_config(values: Mapping[str, Any]) -> EncoderConfig:
    return EncoderConfig(
        n_layers=values["layers"] or CLASSROOM.n_layers,
        n_heads=values["heads"],
        d_model=values["d_model"],
        d_ff=values["d_ff"],
        norm_placement=values["norm"],
        activation=values["activation"],
        positions=values["positions"],
        final_norm={"auto": None, "true": True, "false": False}[values["final_norm"]],
    )


def trained_config(source: str, n_layers: int) -> EncoderConfig:
    """The architecture of a trained encoder, cut after its first layers."""
    return replace(TRAINED[source], n_layers=n_layers)


def other_placement(request: Request) -> Request:
    """The same with the norms on the other side of the sublayers, and all else held.

    A trained encoder becomes its twin. A built one keeps its seed; its final norm follows the placement, unless it was
    asked for against it.
    """
    config = request.config
    if request.source in TRAINED:
        twin: Source = "minilm" if request.source == "minilm-preln" else "minilm-preln"
        return replace(request, source=twin, config=trained_config(twin, config.n_layers))
    pre = config.norm_placement == "pre"
    final_norm = None if config.final_norm == pre else config.final_norm
    other = replace(config, norm_placement="post" if pre else "pre", final_norm=final_norm)
    return replace(request, config=other)


def placements(request: Request) -> Pair:
    """The request and the same with the other placement: Post-LN first, whichever is asked for."""
    other = other_placement(request)
    post, pre = (other, request) if request.config.norm_placement == "pre" else (request, other)
    return Pair(names=("Post-LN", "Pre-LN"), a=post, b=pre, asked=request)
