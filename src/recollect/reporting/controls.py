"""The controls of a page: native fields of one form, whose values are what is chosen."""

from collections.abc import Sequence
from html import escape
from typing import Any

from recollect.reporting.markup import heading
from recollect.views.base import Choice
from recollect.views.fields import plain

_INTERNAL = ("at_best", "curve", "model")
"""Columns of the runs that the table does not show."""


def controls(views: Sequence[tuple[dict[str, Any], list[Choice]]], studies: Sequence[str]) -> str:
    """The views to choose from, the studies, and of each view its choices, of which those of the view shown are enabled."""
    tabs = "".join(
        f'<label><input type="radio" name="view" value="{escape(view["name"])}"{"" if k else " checked"}>'
        f"{escape(view['title'])}</label>"
        for k, (view, _) in enumerate(views)
    )
    boxes = "".join(
        f'<label><input type="checkbox" name="study" value="{escape(name)}">{escape(name)}</label>' for name in studies
    )
    parts = "".join(
        f'<fieldset data-view="{escape(view["name"])}">{"".join(map(_select, choices))}</fieldset>'
        for view, choices in views
    )
    alone = " hidden" if len(studies) < 2 else ""
    return (
        f'<nav id="views" aria-label="Views">{tabs}</nav><div class="controls">'
        f'<details id="studies"{alone}><summary></summary><div id="study-list">{boxes}</div></details>'
        f'<div id="choices">{parts}</div>'
    )


def _select(choice: Choice) -> str:
    """A list to choose from; where there is a single option, it is chosen and not shown."""
    options = "".join(
        f'<option value="{escape(value)}"{" selected" if value == choice.default else ""}>{escape(label)}</option>'
        for value, label in choice.options.items()
    )
    only = " hidden" if len(choice.options) < 2 else ""
    return f'<label{only}>{escape(choice.label)}<select name="{escape(choice.name)}">{options}</select></label>'


def run_heads(runs: dict[str, list[Any]], several: bool) -> str:
    """The heads of the table of runs, which say what field each column shows, and which are of numbers."""
    hidden = _INTERNAL if several else (*_INTERNAL, "study")
    first = dict.fromkeys(("id", "study", "configuration", *runs))
    shown = [name for name in first if name in runs and name not in hidden]
    return "".join(
        heading(plain(name), f' data-field="{escape(name)}"{" class=number" if _numbers(runs[name]) else ""}')
        for name in shown
    )


def _numbers(values: list[Any]) -> bool:
    return all(value is None or isinstance(value, int | float) for value in values)
