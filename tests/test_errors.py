"""The tree of exceptions, as its docstring draws it."""

import inspect

import pytest

import explorer
from explorer import ExplorerError, errors

ALL = [value for _, value in inspect.getmembers(errors, inspect.isclass)]


def test_the_drawn_tree_is_the_real_one():
    """A new error that is not drawn, or not public, cannot be looked up by who catches it."""
    drawn = {
        line.strip("│├└─ ").split()[0]: "(also ValueError)" in line
        for line in errors.__doc__.splitlines()
        if "── " in line
    }
    assert drawn == {error.__name__: issubclass(error, ValueError) for error in ALL if error is not ExplorerError}


@pytest.mark.parametrize("error", ALL)
def test_one_base_catches_all_and_all_are_public(error):
    assert issubclass(error, ExplorerError)
    assert error.__name__ in explorer.__all__
