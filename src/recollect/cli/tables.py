"""Results as tables for a terminal."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd
from rich.table import Table
from rich.text import Text

from recollect.analysis.window import decades_text

if TYPE_CHECKING:
    from recollect.study.plan import Plan
    from recollect.study.search.base import Searched


def headed(title: str, texts: Sequence[str], numbers: Sequence[str]) -> Table:
    """A table without rows: columns of text, then columns of numbers, which stand to the right."""
    table = Table(*texts, title=title, title_justify="left")
    for heading in numbers:
        table.add_column(heading, justify="right")
    return table


def windows_table(found: pd.DataFrame, threshold: float) -> Table:
    """The learning-rate window of each configuration, by the end of each run and by its best checkpoint."""
    title = f"learning-rate windows (accuracy at least {threshold:g})"
    spread = (
        "window, decades",
        "over seeds",
        "from",
        "to",
        "best checkpoints",
        "sensitivity",
        "diverged",
        "Zoology's 4 rates",
    )
    table = headed(title, ["configuration"], ["best", "best rate", *spread])
    for row in found.to_dict("records"):
        edges = [f"{row[edge]:.1e}" if row["decades"] else "-" for edge in ("low", "high")]
        table.add_row(
            row["configuration"], f"{row['best']:.3f}", f"{row['best_lr']:.1e}", decades_text(row),
            f"{row['seed_min']:.2f} .. {row['seed_max']:.2f}", *edges, f"{row['checkpoint_decades']:.2f}",
            "-" if pd.isna(row["sensitivity"]) else f"{row['sensitivity']:.3f}", f"{row['diverged']:.0%}",
            "find it" if row["zoology_finds"] else "miss it" if row["decades"] else "-",
        )  # fmt: skip
    return table


def search_table(searched: "Searched") -> Table:
    """What a search found, and with how many runs: one row per configuration, one column per fact."""
    facts = {label: _facts(record) for label, record in searched.found.items()}
    table = headed(f"search: {searched.line}", ["configuration"], list(next(iter(facts.values()), {})))
    for label, values in facts.items():
        table.add_row(label, *values.values())
    return table


def _facts(record: Any) -> dict[str, str]:
    """What a search knows about one configuration; an edge at an end of the grid is open."""
    shown = {}
    for name, value in vars(record).items():
        if isinstance(value, bool) and name.startswith("open_"):
            edge = name.removeprefix("open_")
            shown[edge] = ("≤ " if edge == "low" else "≥ ") * value + shown[edge]
        elif isinstance(value, bool):
            shown[name] = "yes" if value else "no"
        else:
            shown[name] = "-" if value != value else f"{value:.3g}" if isinstance(value, float) else str(value)
    return shown


def kernels_table(found: pd.DataFrame) -> Table:
    """Every form of each op: right or wrong here, by how much, and milliseconds of a forward and backward pass."""
    texts, numbers = ("op", "form", "version", "here"), ("error", "of gradients", "ms per pass")
    table = headed("kernels against definitions in float64", texts, numbers)
    table.add_column("why not")
    styles = {"right": "green", "wrong": "bold red", "fails": "bold red", "not here": "dim"}
    rows = found.to_dict("records")
    for i, row in enumerate(rows):
        numbers = ("-" if pd.isna(row[name]) else f"{row[name]:.1e}" for name in ("output", "gradients"))
        ms = "-" if pd.isna(row["ms"]) else f"{row['ms']:.3g}"
        verdict = Text(row["verdict"], styles[row["verdict"]])
        last = i + 1 == len(rows) or rows[i + 1]["op"] != row["op"]
        table.add_row(row["op"], row["form"], row["version"], verdict, *numbers, ms, row["note"], end_section=last)
    return table


def comparison_table(records: list[dict[str, Any]], title: str) -> Table:
    """Every model's best accuracy (mean over seeds), its window, and how soon a run of it ended as solved."""
    window = ("window, decades", "from", "to", "99 % after")
    table = headed(title, ["model"], ["layers", "best accuracy", *window, "parameters", "trained"])
    for i, row in enumerate(records):
        edges = [f"{row[edge]:.1e}" if row["decades"] else "-" for edge in ("low", "high")]
        steps = "-" if pd.isna(row["step"]) else f"{row['step']:.0f} steps"
        table.add_row(
            row["model"], str(row["layers"]), f"{row['best']:.3f}", decades_text(row), *edges, steps,
            f"{row['parameters']:,}", row["origin"], style="bold" if row["probed"] else "",
            end_section=i + 1 < len(records) and records[i + 1]["layers"] != row["layers"],
        )  # fmt: skip
    return table


def atlas_table(found: pd.DataFrame, title: str) -> Table:
    """Every model of a study of the atlas: accuracy, window, steps to learn, sizes."""
    from recollect.probing.overview import COLUMNS, atlas_cells  # brings torch along

    table = headed(title, COLUMNS[:1], COLUMNS[1:])
    for row in found.to_dict("records"):
        table.add_row(*atlas_cells(row))
    return table


def plan_table(name: str, plan: "Plan", device: str, dollars_per_hour: float) -> Table:
    """What a study will cost, by configuration."""
    limit = f": at most this for {plan.searches} window search{'es' * (plan.searches > 1)}" if plan.searches else ""
    cost = ["device time", "dollars"] if dollars_per_hour else ["device time"]
    numbers = ["runs", "done", "left", "cohorts", "tokens", "FLOP", *cost, "rate from"]
    table = headed(f"study {name} on {device}{limit}", ["configuration"], numbers)

    def row(label: str, runs: float, done: float, left: int, part: list[float], basis: str) -> list[str]:
        cohorts, tokens, flops, seconds = part
        price = [f"{seconds / 3600 * dollars_per_hour:,.2f}"] if dollars_per_hour else []
        return [label, f"{runs:,.0f}", f"{done:,.0f}", f"{left:,}", f"{cohorts:,.0f}", f"{tokens:.2e}", f"{flops:.2e}",
                _lasting(seconds), *price, basis]  # fmt: skip

    summed = ("cohorts", "tokens", "flops", "seconds")
    for part in plan.parts:
        values = [getattr(part, name) for name in summed]
        table.add_row(*row(part.label, part.runs, part.done, len(part.left), values, part.basis))
    table.add_section()
    totals = [plan.total(name) for name in summed]
    table.add_row(*row("all", plan.total("runs"), plan.total("done"), plan.left, totals, ""))
    return table


def _lasting(seconds: float) -> str:
    """A time in readable form."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:,.1f} h"


def results_table(frame: pd.DataFrame) -> Table:
    """The columns in which the runs differ, and their results."""
    shown_first = ("id", "configuration", "status", "step", "accuracy", "best_accuracy", "parameters", "seconds")
    columns = [c for c in (*shown_first, "train.lr", "train.seed") if c in frame] if "id" in frame else list(frame)
    shown = pd.DataFrame(frame, columns=columns).set_axis(
        [name.removeprefix("train.") for name in columns], axis="columns"
    )
    numbers = [name for name in shown if pd.api.types.is_numeric_dtype(shown[name])]
    return text_table(shown.map(lambda v: f"{v:.4g}" if isinstance(v, float) else str(v)), numbers)


def text_table(frame: pd.DataFrame, numbers: Sequence[str]) -> Table:
    """A frame of text, as it is; its columns of `numbers` stand to the right, unbroken."""
    table = Table()
    for column in frame:
        right = column in numbers
        table.add_column(str(column), justify="right" if right else "left", overflow="ellipsis" if right else "fold")
    for values in frame.itertuples(index=False):
        table.add_row(*values)
    return table


def beside_table(table: pd.DataFrame, first: str, second: str) -> Table:
    """Two studies side by side: accuracy, best rate and window of each configuration in both."""
    numbers = ("accuracy A", "accuracy B", "B − A", "best rate A", "best rate B", "window A", "window B")
    shown = headed(f"{first} (A) and {second} (B)", ["configuration"], numbers)
    for row in table.to_dict("records"):
        cells = [f"{row['best_a']:.3f}", f"{row['best_b']:.3f}", f"{row['difference']:+.3f}"]
        cells += [f"{row[f'best_lr_{side}']:.1e}" for side in "ab"]
        cells += [
            decades_text({name: row[f"{name}_{side}"] for name in ("decades", "open_low", "open_high")})
            for side in "ab"
        ]
        shown.add_row(row["configuration"], *("-" if "nan" in cell else cell for cell in cells))
    return shown


def bench_table(frame: pd.DataFrame) -> Table:
    """Times of cohorts beside one run at a time."""
    shares = ("sampling", "head", "mixers", "optimiser")
    numbers = ("members", "ms", "times faster", "first step, s", "memory, GiB", "of the roofline", *shares)
    table = headed("per run and step", ("mixer", "trained by"), numbers)
    for row in frame.to_dict("records"):
        members = str(row["members"]) if row["members"] else "one at a time"
        values = (row["ms"], row["speedup"], row["first_step_s"], row["memory_gib"])
        percents = (row["roofline"], *(row[share] for share in shares))
        cells = ["-" if x != x else f"{x:.3g}" for x in values] + ["-" if x != x else f"{x:.0%}" for x in percents]
        table.add_row(str(row["mixer"]), str(row["trained_by"]), members, *cells)
    return table


def number(x: float | None) -> str:
    """A number in readable form, also where there is none."""
    return "none" if x is None or x != x else f"{x:.4g}"


def reproduction_plan_table(title: str, made: "dict[str, Plan]", device: str) -> Table:
    """What the studies of a reproduction will cost."""
    table = headed(f"{title}, on {device}", ["study"], ["runs", "done", "left", "hours", "rate from"])
    for name, plan in made.items():
        basis = ", ".join(dict.fromkeys(part.basis for part in plan.parts))
        counts = (f"{plan.total('runs'):,.0f}", f"{plan.total('done'):,.0f}", f"{plan.left:,}")
        table.add_row(name, *counts, hours(plan.total("seconds")), basis)
    table.add_section()
    from recollect.papers.reproduce import total

    left, seconds = total(made.values())
    table.add_row(
        "all, shared runs once", "", "", f"{left:,}", hours(seconds), "one device or core; runs may end early"
    )
    return table


def verdict_table(title: str, records: list[dict[str, Any]]) -> Table:
    """What became of each claim."""
    table = headed(title, ["item", "claim", "verdict", "numbers"], [])
    for record in records:
        numbers = "; ".join(f"{name}: {value}" for name, value in record["numbers"].items())
        table.add_row(
            record["item"], record["says"], record["answer"], " -- ".join(filter(None, (numbers, record["note"])))
        )
    return table


def hours(seconds: float) -> str:
    """Seconds as hours."""
    return f"{seconds / 3600:,.2f}" if seconds < 36_000 else f"{seconds / 3600:,.0f}"


def mad_table(found: pd.DataFrame, mixer: str, quick: bool) -> Table:
    """A mixer's accuracies on MAD's tasks and its score, beside those that papers report."""
    from recollect.papers.mad2024 import PUBLISHED, TASKS, score

    reported = PUBLISHED.get(mixer, {})
    title = f"MAD: {mixer}" + (", baselines only" if quick else "")
    table = headed(title, ["task"], ["accuracy", "settings", "published, all settings"])
    rows = {row["task.kind"]: row for row in found.to_dict("records")}
    for task in TASKS:
        own = (f"{rows[task]['accuracy']:.3f}", str(rows[task]["settings"])) if task in rows else ("-", "0")
        table.add_row(task, *own, f"{reported[task]:.3f}" if reported else "-")
    table.add_section()
    whole = next(iter(score(found).values()), float("nan"))
    mean = f"{sum(reported.values()) / len(reported):.3f}" if reported else "-"
    table.add_row("score", f"{whole:.3f}" if whole == whole else "-", str(sum(found["settings"])), mean)
    return table
