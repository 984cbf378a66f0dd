"""A check: a function that raises AssertionError if a rule is broken."""

from collections.abc import Callable
from typing import NamedTuple


class Check(NamedTuple):
    """One rule. `function` raises AssertionError, saying what and where, if the rule is broken.

    It returns None if the rule holds, and a note if the rule does not apply ("has no step").
    """

    name: str
    description: str
    function: Callable[..., str | None]


def checks(*functions: Callable[..., str | None]) -> list[Check]:
    """Each function as a check, named and described by itself."""
    return [Check(f.__name__, (f.__doc__ or "").partition("\n")[0], f) for f in functions]


def add_tests(suite: type, rules: list[Check]) -> None:
    """Give the class `suite` one test method per rule; each calls `suite.hold(rule)`."""
    for rule in rules:

        def test(self, rule: Check = rule) -> None:
            self.hold(rule)

        test.__doc__ = rule.description
        setattr(suite, f"test_{rule.name}", test)


def skip(note: str) -> None:
    """Skip a test in pytest because its rule does not apply. (Only here is pytest needed: the checks run without it.)"""
    import pytest

    pytest.skip(note)
