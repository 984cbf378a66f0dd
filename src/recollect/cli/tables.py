"""Results as tables for a terminal."""

import pandas as pd
from rich.table import Table

from recollect.analysis.window import windows
from recollect.store.store import Store
from recollect.study.plan import Plan
from recollect.study.search.rounds import Searched, describe


def windows_table(frame: pd.DataFrame) -> Table:
    """The learning-rate window of each configuration."""
    table = _table("learning-rate windows (accuracy at least 0.95)", "configuration")
    _right(table, "best", "window, decades", "over seeds", "from", "to", "Zoology's 4 rates")
    for row in windows(frame).to_dict("records"):
        sign = "≥ " if row["open_low"] or row["open_high"] else ""
        edges = [f"{row[edge]:.1e}" if row["decades"] else "-" for edge in ("low", "high")]
        table.add_row(
            row["configuration"], f"{row['best']:.3f}", f"{sign}{row['decades']:.2f}",
            f"{row['seed_min']:.2f} .. {row['seed_max']:.2f}", *edges,
            "find it" if row["zoology_finds"] else "miss it" if row["decades"] else "-",
        )  # fmt: skip
    return table


def search_table(searched: Searched) -> Table:
    """What a window search found, and with how many runs."""
    table = _table(f"window search: {describe(searched)}", "configuration")
    _right(table, "best", "decades", "from", "to", "runs", "rounds", "settled")
    for label, found in searched.windows.items():
        low, high = (
            f"{'≤ ' if found.open_low else ''}{found.low:.2e}",
            f"{'≥ ' if found.open_high else ''}{found.high:.2e}",
        )
        edges = [low, high] if found.low == found.low else ["-", "-"]
        settled = "yes" if found.settled else "no"
        table.add_row(
            label, number(found.best), f"{found.decades:.2f}", *edges, str(found.runs), str(found.rounds), settled
        )
    return table


def plan_table(name: str, plan: Plan, device: str, dollars_per_hour: float) -> Table:
    """What a study will cost, by configuration."""
    limit = f": at most this for {plan.searches} window searches" if plan.searches else ""
    table = _table(f"study {name} on {device}{limit}", "configuration")
    _right(table, "runs", "done", "left", "cohorts", "tokens", "FLOP", "device time", "dollars", "rate from")

    def row(label: str, runs: float, done: float, left: int, part: list[float], basis: str) -> list[str]:
        cohorts, tokens, flops, seconds = part
        cost = f"{seconds / 3600 * dollars_per_hour:,.2f}" if dollars_per_hour else "-"
        return [label, f"{runs:,.0f}", f"{done:,.0f}", f"{left:,}", f"{cohorts:,.0f}", f"{tokens:.2e}", f"{flops:.2e}",
                _lasting(seconds), cost, basis]  # fmt: skip

    numbers = ("cohorts", "tokens", "flops", "seconds")
    for part in plan.parts:
        values = [getattr(part, name) for name in numbers]
        table.add_row(*row(part.label, part.runs, part.done, len(part.left), values, part.basis))
    table.add_section()
    totals = [plan.total(name) for name in numbers]
    table.add_row(*row("all", plan.total("runs"), plan.total("done"), plan.left, totals, ""))
    return table


def _lasting(seconds: float) -> str:
    """A time as a person would say it."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:,.1f} h"


def status_table(store: Store) -> Table:
    """How far each study has come."""
    done = store.done()
    failed = {run for (run,) in store.query("SELECT DISTINCT run FROM failures")}
    table = _table(str(store.path), "study")
    _right(table, "runs", "ended", "diverged", "failed", "left")
    for study, runs in store.studies().items():
        ended = [done[id] for id in runs if id in done]
        broken = sum(id in failed and id not in done for id in runs)
        cells = (len(runs), len(ended), ended.count("diverged"), broken, len(runs) - len(ended))
        table.add_row(study, *(str(n) for n in cells))
    return table


def results_table(frame: pd.DataFrame) -> Table:
    """The columns that tell the runs apart, and what came of them."""
    table = Table()
    telling = ("id", "configuration", "status", "step", "accuracy", "best_accuracy", "parameters", "seconds")
    columns = [c for c in (*telling, "train.lr", "train.seed") if c in frame] if "id" in frame else list(frame)
    for column in columns:
        table.add_column(column.removeprefix("train."), overflow="fold")
    for values in frame[columns].itertuples(index=False):
        table.add_row(*(f"{v:.4g}" if isinstance(v, float) else str(v) for v in values))
    return table


def bench_table(frame: pd.DataFrame) -> Table:
    """Times of cohorts beside one run at a time."""
    table = _table("a run and step", "mixer")
    shares = ("sampling", "head", "mixers", "optimiser")
    _right(table, "members", "ms", "times faster", "first step, s", "memory, GiB", "of the roofline", *shares)
    for row in frame.to_dict("records"):
        members = str(row["members"]) if row["members"] else "one at a time"
        numbers = (row["ms"], row["speedup"], row["first_step_s"], row["memory_gib"])
        percents = (row["roofline"], *(row[share] for share in shares))
        cells = ["-" if x != x else f"{x:.3g}" for x in numbers] + ["-" if x != x else f"{x:.0%}" for x in percents]
        table.add_row(str(row["mixer"]), members, *cells)
    return table


def number(x: float | None) -> str:
    """A number for a person, also where there is none."""
    return "none" if x is None or x != x else f"{x:.4g}"


def _table(title: str, first: str) -> Table:
    return Table(first, title=title, title_justify="left")


def _right(table: Table, *headings: str) -> None:
    for heading in headings:
        table.add_column(heading, justify="right")
