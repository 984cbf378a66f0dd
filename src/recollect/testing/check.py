"""A check: a function that raises AssertionError if a rule is broken."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


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


class Conformance:
    """Tests for a user's own class: one test method for each of the `rules` that a subclass is declared with."""

    def __init_subclass__(cls, rules: Sequence[Check] = ()) -> None:
        super().__init_subclass__()
        for rule in rules:

            def test(self, rule: Check = rule) -> None:
                self.hold(rule)

            test.__doc__ = rule.description
            setattr(cls, f"test_{rule.name}", test)

    def given(self, check: Check) -> dict[str, Any]:
        """What the function of a check is called with."""
        raise NotImplementedError

    def hold(self, check: Check) -> None:
        """Run one check as a test; one that does not apply is skipped."""
        if note := check.function(**self.given(check)):
            import pytest  # only here: the checks run without it

            pytest.skip(note)
