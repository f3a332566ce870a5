"""What can go wrong, as a tree of exceptions.

    ExplorerError
    ├── ConfigError        an architecture or a training that cannot be    (also ValueError)
    ├── TextError          sentences that cannot become a batch            (also ValueError)
    ├── MaskError          a padding mask that is not one                  (also ValueError)
    ├── WeightsError       parameters that are missing or not the right ones
    └── MemoryLimitError   a run that would need more memory than allowed

Each message names the rule, the value and the way out, and is fit to be shown to a reader as it is.
A device that is not there is no error: a run falls back to the CPU and says so in `Run.notes`.
"""


class ExplorerError(Exception):
    """Base of every error raised on purpose by this package."""


class ConfigError(ExplorerError, ValueError):
    """An architecture that cannot be built, or a training of it that cannot be."""


class TextError(ExplorerError, ValueError):
    """Sentences that cannot become a batch."""


class MaskError(ExplorerError, ValueError):
    """A padding mask of the wrong type or shape, or one that hides a whole sequence, or every key of a query."""


class WeightsError(ExplorerError):
    """Parameters that are missing, damaged, or do not fit the architecture."""


class MemoryLimitError(ExplorerError):
    """A run whose record would need more memory than allowed."""
