"""Results as tables for a terminal."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import pandas as pd
from rich.table import Table
from rich.text import Text

from recollect.analysis.window import decades_text

if TYPE_CHECKING:
    from recollect.study.plan import Plan
    from recollect.study.search.base import Searched

SECTION: dict[str, str] = {}
"""Among the rows of a table: a line between those before and those after."""


def table_of(rows: Iterable[Mapping[str, str | Text]], title: str, texts: Collection[str] = ()) -> Table:
    """Cells by heading. The first column and those named in `texts` are text, the others numbers, which stand to the right."""
    table = Table(title=title, title_justify="left")
    for row in rows:
        for i, heading in enumerate(row if not table.columns else ()):
            table.add_column(heading, justify="left" if i == 0 or heading in texts else "right")
        if row:
            table.add_row(*row.values())
        else:
            table.add_section()
    if not table.columns:
        table.add_column()  # rich shows the title only where there is a column
    return table


def or_dash(value: float | None, form: str) -> str:
    """A number in this form, or a dash where there is none."""
    return "-" if value is None or value != value else format(value, form)


def _edges(row: Mapping[str, Any]) -> dict[str, str]:
    """The edges of a window, where there is one."""
    return {name: f"{row[edge]:.1e}" if row["decades"] else "-" for name, edge in (("from", "low"), ("to", "high"))}


def windows_table(found: pd.DataFrame, threshold: float) -> Table:
    """The learning-rate window of each configuration, by the end of each run and by its best checkpoint."""
    rows = [{
        "configuration": row["configuration"], "best": f"{row['best']:.3f}", "best rate": f"{row['best_lr']:.1e}",
        "window, decades": decades_text(row), "over seeds": f"{row['seed_min']:.2f} .. {row['seed_max']:.2f}", **_edges(row),
        "best checkpoints": f"{row['checkpoint_decades']:.2f}", "sensitivity": or_dash(row["sensitivity"], ".3f"),
        "diverged": f"{row['diverged']:.0%}",
        "Zoology's 4 rates": "find it" if row["zoology_finds"] else "miss it" if row["decades"] else "-",
    } for row in found.to_dict("records")]  # fmt: skip
    return table_of(rows, f"learning-rate windows (accuracy at least {threshold:g})")


def search_table(searched: "Searched") -> Table:
    """What a search found, and with how many runs: one row per configuration, one column per fact."""
    rows = ({"configuration": label, **_facts(record)} for label, record in searched.found.items())
    return table_of(rows, f"search: {searched.line}")


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
            shown[name] = or_dash(value, ".3g" if isinstance(value, float) else "")
    return shown


def kernels_table(found: pd.DataFrame) -> Table:
    """Every form of each op: right or wrong here, by how much, and milliseconds of a forward and backward pass."""
    styles = {"right": "green", "wrong": "bold red", "fails": "bold red", "not here": "dim"}
    rows = []
    for _, forms in found.groupby("op", sort=False):
        rows += [{
            "op": row["op"], "form": row["form"], "version": row["version"],
            "here": Text(row["verdict"], styles[row["verdict"]]), "error": or_dash(row["output"], ".1e"),
            "of gradients": or_dash(row["gradients"], ".1e"), "ms per pass": or_dash(row["ms"], ".3g"), "why not": row["note"],
        } for row in forms.to_dict("records")] + [SECTION]  # fmt: skip
    return table_of(rows, "kernels against definitions in float64", ("form", "version", "here", "why not"))


def comparison_table(records: list[dict[str, Any]], title: str) -> Table:
    """Every model's best accuracy (mean over seeds), its window, and how soon a run of it ended as solved."""
    table = table_of([{
        "model": row["model"], "layers": str(row["layers"]), "best accuracy": f"{row['best']:.3f}",
        "window, decades": decades_text(row), **_edges(row),
        "99 % after": "-" if pd.isna(row["step"]) else f"{row['step']:.0f} steps",
        "parameters": f"{row['parameters']:,}", "trained": row["origin"],
    } for row in records], title)  # fmt: skip
    for shown, row, after in zip(table.rows, records, [*records[1:], *records[-1:]], strict=True):
        shown.style, shown.end_section = "bold" if row["probed"] else "", row["layers"] != after["layers"]
    return table


def atlas_table(found: pd.DataFrame, title: str) -> Table:
    """Every model of a study of the atlas: accuracy, window, steps to learn, sizes."""
    from recollect.probing.overview import COLUMNS, atlas_cells  # brings torch along

    return table_of((dict(zip(COLUMNS, atlas_cells(row), strict=True)) for row in found.to_dict("records")), title)


def plan_table(name: str, plan: "Plan", device: str, dollars_per_hour: float) -> Table:
    """What a study will cost, by configuration."""

    def row(label: str, left: int, total: Callable[[str], float], basis: str) -> dict[str, str]:
        dollars = {"dollars": f"{total('seconds') / 3600 * dollars_per_hour:,.2f}"} if dollars_per_hour else {}
        return {
            "configuration": label, "runs": f"{total('runs'):,.0f}", "done": f"{total('done'):,.0f}", "left": f"{left:,}",
            "cohorts": f"{total('cohorts'):,.0f}", "tokens": f"{total('tokens'):.2e}", "FLOP": f"{total('flops'):.2e}",
            "device time": _lasting(total("seconds")), **dollars, "rate from": basis,
        }  # fmt: skip

    limit = f": at most this for {plan.searches} window search{'es' * (plan.searches > 1)}" if plan.searches else ""
    rows = [row(part.label, len(part.left), partial(getattr, part), part.basis) for part in plan.parts]
    return table_of([*rows, SECTION, row("all", plan.left, plan.total, "")], f"study {name} on {device}{limit}")


def _lasting(seconds: float) -> str:
    """A time in readable form."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.1f} min" if seconds < 6000 else f"{seconds / 3600:,.1f} h"


def results_table(frame: pd.DataFrame) -> Table:
    """The columns in which the runs differ, and their results."""
    shown_first = ("id", "configuration", "status", "step", "accuracy", "best_accuracy", "parameters", "seconds")
    columns = [c for c in (*shown_first, "train.lr", "train.seed") if c in frame] if "id" in frame else list(frame)
    shown = pd.DataFrame(frame, columns=columns).rename(columns=lambda name: name.removeprefix("train."))
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
    rows = []
    for row in table.to_dict("records"):
        a, b = ({name: row[f"{name}_{side}"] for name in ("decades", "open_low", "open_high")} for side in "ab")
        cells = {
            "accuracy A": f"{row['best_a']:.3f}", "accuracy B": f"{row['best_b']:.3f}", "B − A": f"{row['difference']:+.3f}",
            "best rate A": f"{row['best_lr_a']:.1e}", "best rate B": f"{row['best_lr_b']:.1e}",
            "window A": decades_text(a), "window B": decades_text(b),
        }  # fmt: skip
        cells = {name: "-" if "nan" in cell else cell for name, cell in cells.items()}
        rows.append({"configuration": row["configuration"], **cells})
    return table_of(rows, f"{first} and {second}")


def bench_table(frame: pd.DataFrame) -> Table:
    """Times of cohorts beside one run at a time."""
    values = {"ms": "ms", "times faster": "speedup", "first step, s": "first_step_s", "memory, GiB": "memory_gib"}
    shares = {"of the roofline": "roofline"} | {name: name for name in ("sampling", "head", "mixers", "optimiser")}
    rows = [{
        "mixer": str(row["mixer"]), "trained by": str(row["trained_by"]),
        "members": str(row["members"]) if row["members"] else "one at a time",
        **{heading: or_dash(row[name], ".3g") for heading, name in values.items()},
        **{heading: or_dash(row[name], ".0%") for heading, name in shares.items()},
    } for row in frame.to_dict("records")]  # fmt: skip
    return table_of(rows, "per run and step", ["trained by"])


def number(x: float | None) -> str:
    """A number in readable form, also where there is none."""
    return "none" if x is None or x != x else f"{x:.4g}"


def reproduction_plan_table(title: str, made: "dict[str, Plan]", device: str) -> Table:
    """What the studies of a reproduction will cost."""
    from recollect.papers.reproduce import total

    rows = [{
        "study": name, "runs": f"{plan.total('runs'):,.0f}", "done": f"{plan.total('done'):,.0f}", "left": f"{plan.left:,}",
        "hours": hours(plan.total("seconds")), "rate from": ", ".join(dict.fromkeys(part.basis for part in plan.parts)),
    } for name, plan in made.items()]  # fmt: skip
    left, seconds = total(made.values())
    last = {
        "study": "all, shared runs once", "runs": "", "done": "", "left": f"{left:,}", "hours": hours(seconds),
        "rate from": "one device or core; runs may end early",
    }  # fmt: skip
    return table_of([*rows, SECTION, last], f"{title}, on {device}")


def verdict_table(title: str, records: list[dict[str, Any]]) -> Table:
    """The verdict on each claim."""
    table = Table("item", "claim", "verdict", "numbers", title=title, title_justify="left")
    for record in records:
        numbers = "; ".join(f"{name}: {value}" for name, value in record["numbers"].items())
        reasons = " -- ".join(filter(None, (numbers, record["note"])))
        table.add_row(record["item"], record["says"], record["answer"], reasons)
    return table


def hours(seconds: float) -> str:
    """Seconds as hours."""
    return f"{seconds / 3600:,.2f}" if seconds < 36_000 else f"{seconds / 3600:,.0f}"


def mad_table(found: pd.DataFrame, mixer: str, quick: bool) -> Table:
    """A mixer's accuracies on MAD's tasks and its score, beside those that papers report."""
    from recollect.papers.mad2024 import PUBLISHED, TASKS, score

    reported = PUBLISHED.get(mixer, {})
    own = {row["task.kind"]: row for row in found.to_dict("records")}
    measured = {task: (own[task]["accuracy"], own[task]["settings"]) if task in own else (None, 0) for task in TASKS}
    published = {task: reported.get(task) for task in TASKS}
    measured["score"] = next(iter(score(found).values()), None), sum(found["settings"])
    published["score"] = sum(reported.values()) / len(reported) if reported else None
    rows = [{
        "task": task, "accuracy": or_dash(accuracy, ".3f"), "settings": str(settings),
        "published, all settings": or_dash(published[task], ".3f"),
    } for task, (accuracy, settings) in measured.items()]  # fmt: skip
    return table_of([*rows[:-1], SECTION, rows[-1]], f"MAD: {mixer}" + (", baselines only" if quick else ""))
