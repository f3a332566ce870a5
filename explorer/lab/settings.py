"""Everything that fixes a training, as one frozen value."""

import math
from dataclasses import dataclass, field
from typing import Any, Final

from explorer.config import EncoderConfig, NormPlacement, check_count, check_option
from explorer.errors import ConfigError
from explorer.lab.tasks import TASKS, VOCABULARY, Reverse, Task
from explorer.stats.shapes import parameters_and_flops
from explorer.tape import SITES
from explorer.weights.seeded import INITIALISATIONS, MAX_SEED, Initialisation

LIMITS: Final = {
    "n_layers": (1, 12),
    "d_model": (4, 128),
    "d_ff": (4, 512),
    "batch": (1, 256),
    "steps": (1, 2_000),
    "seed": (0, MAX_SEED),
}
"""Smallest and largest value of what a training may have. The longest sentence is bounded by its task."""

MAX_LEARNING_RATE: Final = 0.1
HOLD: Final = 100
"""Steps after which the learning rate falls."""

MAX_STEP_FLOPS: Final = 5_000_000_000
"""About a third of a second on one busy core. A training can stop only at the end of a step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """A training: what is asked, of which encoder, and how it is taught. See `learning_rate_at` for the schedule.

    The encoder follows BERT where its details are free: learned positions, a LayerNorm over the sum of embeddings, and
    parameters drawn with standard deviation 0.02. So a letter and its place weigh the same at the start. With scaled
    letters and sines the letter outweighs the place, and reversing, all about places, took twice the steps or more.

    Raises:
        ConfigError: If a value is outside its bounds, or all together make a step too long. The message names the
            value and a way out.
    """

    task: Task = field(default_factory=Reverse)
    n_layers: int = 2
    n_heads: int = 4
    d_model: int = 64
    d_ff: int = 256
    norm_placement: NormPlacement = "post"
    init: Initialisation = "normal"
    learning_rate: float = 3e-3
    warm_up: int = 50
    """Steps until the learning rate is reached, in equal increments; 0 starts with all of it."""
    batch: int = 64
    """Sentences a step."""
    steps: int = 400
    """The most that are made."""
    seed: int = 0
    """Fixes the parameters at the start and all sentences."""

    def __post_init__(self) -> None:
        if type(self.task) not in TASKS.values():
            raise ConfigError(f"task must be one of {', '.join(TASKS)}, not {self.task!r}; usual: Reverse()")
        for name, (low, high) in LIMITS.items():
            check_count(name, getattr(self, name), low, high)
        check_count("warm_up", self.warm_up, 0, LIMITS["steps"][1])
        check_option("init", self.init, INITIALISATIONS)
        _check_learning_rate(self.learning_rate)
        _ = self.config  # refuses what cannot be built
        if self.step_flops > MAX_STEP_FLOPS:
            raise ConfigError(
                f"a step of this training ({self.step_flops / 1e9:.1f} GFLOP) must not need more than "
                f"{MAX_STEP_FLOPS / 1e9:g} GFLOP; choose fewer layers, smaller widths, a smaller batch "
                f"than {self.batch} or shorter sentences"
            )

    @property
    def config(self) -> EncoderConfig:
        """The architecture."""
        return EncoderConfig(
            n_layers=self.n_layers,
            n_heads=self.n_heads,
            d_model=self.d_model,
            d_ff=self.d_ff,
            norm_placement=self.norm_placement,
            positions="learned",
            scale_embeddings=False,
            embedding_norm=True,
            max_len=self.task.max_len,
            vocab_size=len(VOCABULARY),
        )

    @property
    def step_flops(self) -> int:
        """The floating-point operations of one step: forward once, backward twice as much. The read-out is left out."""
        costs = parameters_and_flops(self.config, batch=self.batch, pos=self.task.max_len)
        return 3 * sum(n * (self.n_layers if f"layers.*.{site}" in SITES else 1) for site, (_, n) in costs.items())

    def learning_rate_at(self, step: int) -> float:
        """The learning rate of a step, counted from 1: it rises in a line, stays, and falls as 1 / sqrt(step).

        The fall, from step 100 on, lets heads settle: at a constant rate an encoder that was right fell back to 93 %
        now and then. It does not depend on `steps`: 100 steps are the beginning of 400, and `steps` means "at most".

        Source: Vaswani et al. 2017, section 5.3, there without the part that stays.
        """
        rise = min(1.0, step / self.warm_up) if self.warm_up else 1.0
        return self.learning_rate * rise * min(1.0, math.sqrt(HOLD / step))


def _check_learning_rate(value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MAX_LEARNING_RATE:
        raise ConfigError(
            f"learning_rate must be a number above 0 and up to {MAX_LEARNING_RATE:g}, not {value!r}; usual: 0.003"
        )
