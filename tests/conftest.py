"""What all tests share: one thread, repeatable examples, the trained encoder loaded once."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

import explorer
from tests.helpers import no_type_checks

torch.set_num_threads(1)

settings.register_profile(
    "repeatable",  # the same examples in every run: what turns red was made red by a change
    deadline=None,
    derandomize=True,
    max_examples=30,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("repeatable")


@pytest.fixture(scope="session")
def minilm() -> explorer.Model:
    """The trained encoder. Shared: nobody may change it."""
    return explorer.load("minilm")


@pytest.fixture(scope="session")
def goldens() -> Path:
    """The folder of the reference activations, see its README."""
    return Path(__file__).parent / "goldens"


@pytest.fixture
def unchecked() -> Iterator[None]:
    """See `no_type_checks`: for tests of refusals that the type checks would anticipate."""
    with no_type_checks():
        yield
