"""Putting a state dict into an encoder: completely, or not at all."""

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from explorer.errors import WeightsError
from explorer.model import Encoder


@dataclass(frozen=True, slots=True)
class LoadReport:
    """What was loaded, for people to read."""

    source: str
    """One sentence: where the parameters come from."""
    trained: bool
    n_parameters: int
    unused: tuple[str, ...] = ()
    """Names in the file that the encoder has no place for."""
    sha256: str | None = None


def fill(encoder: Encoder, state: Mapping[str, Tensor]) -> int:
    """Gives the encoder these parameters, and returns how many numbers they are.

    Raises:
        WeightsError: If a name is missing, left over, or has another shape. Nothing is changed then.
    """
    wanted = {name: tuple(value.shape) for name, value in encoder.state_dict().items()}
    given = {name: tuple(value.shape) for name, value in state.items()}
    if wrong := sorted(name for name in wanted.keys() & given.keys() if wanted[name] != given[name]):
        name = wrong[0]
        raise WeightsError(f"{name} has shape {list(given[name])}, this architecture needs {list(wanted[name])}")
    if missing := sorted(wanted.keys() - given.keys()):
        raise WeightsError(f"{len(missing)} parameters are missing, the first is {missing[0]}")
    if left_over := sorted(given.keys() - wanted.keys()):
        raise WeightsError(
            f"{len(left_over)} parameters have no place in this architecture, the first is {left_over[0]}"
        )
    encoder.load_state_dict(state, strict=True, assign=True)
    encoder.requires_grad_(False)
    return sum(parameter.numel() for parameter in encoder.parameters())
