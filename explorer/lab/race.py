"""Several trainings in step: one seed, one task, the same batches, and one difference that matters."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

import pandas as pd

from explorer.config import check_count
from explorer.errors import ConfigError
from explorer.lab import records
from explorer.lab.records import Evaluation, Record
from explorer.lab.settings import Settings
from explorer.lab.tasks import Shift
from explorer.lab.training import Training

MOST_RUNNERS: Final = 4

PLACEMENTS: Final = Settings(task=Shift(), n_layers=8, init="xavier", warm_up=0, batch=32, steps=400)
"""A deep encoder without warm-up. Pre-LN learns it in 75 steps; Post-LN lags: it answers `[CLS]` to everything, still.

Measured on seeds 0, 1 and 2, held-out accuracy of Post-LN: 25 % from step 25 to 225, and to 500 where that was tried.
Warm-up over 100 steps brings it to 99 % at step 350, 250 and 225, a rate of 1e-3 without warm-up at 375, 350 and 275.
With `init="normal"`, by which each sublayer adds next to nothing at first, it needs neither: 99 % at step 75.
"""


class Race:
    """Trainings that have made the same number of steps whenever somebody looks.

    Nothing is drawn that is not drawn for all: each step's batch is the same, and so is each parameter at the start
    that two runners have in common.
    """

    def __init__(self, runners: Mapping[str, Settings]) -> None:
        """The settings of each runner by the name that is shown.

        Raises:
            ConfigError: If there are fewer than two or more than four, or they would not see the same batches.
        """
        check_count("runners", len(runners), 2, MOST_RUNNERS)
        first, *others = runners.values()
        for name in ("task", "seed", "batch", "steps"):
            for other in others:
                if getattr(other, name) != getattr(first, name):
                    raise ConfigError(
                        f"all runners must have the same {name}, not {getattr(first, name)} and {getattr(other, name)}"
                    )
        self.trainings = {name: Training(settings) for name, settings in runners.items()}

    @classmethod
    def of_placements(cls, settings: Settings = PLACEMENTS) -> "Race":
        """Pre-LN against Post-LN, all else equal. Pre-LN has one norm more, after the stack."""
        return cls(
            {"Pre-LN": replace(settings, norm_placement="pre"), "Post-LN": replace(settings, norm_placement="post")}
        )

    @property
    def n_steps(self) -> int:
        """Steps that all runners have made."""
        return min(training.n_steps for training in self.trainings.values())

    @property
    def done(self) -> bool:
        """Whether all runners have made all their steps."""
        return all(training.done for training in self.trainings.values())

    def step(self) -> dict[str, Record]:
        """One step of each runner.

        Raises:
            ConfigError: If all steps are made.
        """
        return {name: training.step() for name, training in self.trainings.items()}

    def run(self, every: int = 5) -> Iterator[int]:
        """Runs to the end, and gives the number of steps after every few of them and after the last.

        To stop is not to ask for more; a further call of `run` goes on from there.

        Raises:
            ConfigError: If `every` is not a whole number from 1.
        """
        check_count("every", every, 1, 1_000)
        while not self.done:
            self.step()
            if self.n_steps % every == 0 or self.done:
                yield self.n_steps

    def evaluate(self) -> dict[str, Evaluation]:
        """How good each runner is now, on the same held-out sentences."""
        return {name: training.evaluate() for name, training in self.trainings.items()}

    def curves(self) -> pd.DataFrame:
        """One row a runner and step: runner, step, loss, accuracy, learning_rate. May be called from any thread."""
        return self._table(records.curves)

    def gradients(self) -> pd.DataFrame:
        """One row a runner, step and layer: runner, step, layer, gradient_norm. May be called from any thread."""
        return self._table(records.gradients)

    def _table(self, table: Callable[[Sequence[Record]], pd.DataFrame]) -> pd.DataFrame:
        n_steps = self.n_steps  # a runner may be one ahead while another thread looks
        frames = []
        for name, training in self.trainings.items():
            frame = table(training.records[:n_steps])
            frame.insert(0, "runner", name)
            frames.append(frame)
        return pd.concat(frames, ignore_index=True)
