"""torch's own encoder with the parameters of ours: an implementation that shares no line with `explorer.model`."""

from collections.abc import Callable
from typing import Final

from torch import Tensor, nn
from torch.nn import functional as F

from explorer.loading import Model
from explorer.precision import Precision

ACTIVATIONS: Final[dict[str, Callable[[Tensor], Tensor]]] = {"relu": F.relu, "gelu": F.gelu, "silu": F.silu}

NAMES: Final = {"self_attn.in_proj_": "attn.in_proj.", "self_attn.out_proj": "attn.out_proj", "linear": "ff.linear"}
"""Where our names differ: the beginning of torch's name of a parameter, and of ours."""


def torch_twin(model: Model, precision: Precision = "float32") -> nn.TransformerEncoder:
    """`torch.nn.TransformerEncoder` with the layers and the final norm of this model, to be fed with embeddings.

    It owns no parameter: all are those of the model in this precision, on the CPU, so it costs no memory. Nothing is
    drawn.
    """
    config, encoder = model.config, model.on("cpu", precision)
    layers = [
        nn.TransformerEncoderLayer(
            config.d_model,
            config.n_heads,
            config.d_ff,
            dropout=0.0,
            activation=ACTIVATIONS[config.activation],
            layer_norm_eps=config.norm_eps,
            batch_first=True,
            norm_first=config.norm_placement == "pre",
            bias=config.bias,
            device="meta",
        )
        for _ in range(config.n_layers)
    ]
    for theirs, ours in zip(layers, encoder.layers, strict=True):
        theirs.load_state_dict({_their_name(name): value for name, value in ours.state_dict().items()}, assign=True)
    norm = None
    if encoder.final_norm is not None:
        norm = nn.LayerNorm(config.d_model, eps=config.norm_eps, bias=config.bias, device="meta")
        norm.load_state_dict(encoder.final_norm.state_dict(), assign=True)
    twin = nn.TransformerEncoder(layers[0], 0, norm=norm, enable_nested_tensor=False)
    twin.layers = nn.ModuleList(layers)
    twin.num_layers = len(layers)
    return twin.eval().requires_grad_(False)


def _their_name(name: str) -> str:
    for theirs, ours in NAMES.items():
        if name.startswith(ours):
            return theirs + name.removeprefix(ours)
    return name
