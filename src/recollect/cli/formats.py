"""Tables of text as Markdown, LaTeX or CSV, and a summary's numbers as text."""

import math
from collections.abc import Mapping

import pandas as pd

from recollect.cli.tables import or_dash

_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "≥": r"$\geq$", "<": r"\textless{}", ">": r"\textgreater{}",
}  # fmt: skip


def summary_text(found: pd.DataFrame) -> pd.DataFrame:
    """A summary with its numbers as people read them."""
    rows = []
    for row in found.to_dict("records"):
        one = row["rates"] == 1
        at_least = "≥ " if row["open_low"] or row["open_high"] else ""
        sure = "" if math.isnan(row["window_low"]) else f" [{row['window_low']:.2f}, {row['window_high']:.2f}]"
        steps = row["steps_to_learn"]
        rows.append({
            "configuration": str(row["configuration"]), "best rate": f"{row['best_lr']:.1e}",
            "accuracy": f"{row['accuracy']:.3f}",
            "window, decades": "-" if one else f"{at_least}{row['window']:.2f}{sure}",
            "from": f"{row['from_lr']:.1e}" if row["window"] else "-", "to": f"{row['to_lr']:.1e}" if row["window"] else "-",
            "steps to learn": "never" if math.isinf(steps) else or_dash(steps, ",.0f"),
            "state": or_dash(row["state_size"], ",.0f"), "parameters": or_dash(row["parameters"], ",.0f"),
            "runs": str(row["runs"]),
        })  # fmt: skip
    return pd.DataFrame(rows)


def formatted(table: pd.DataFrame, form: str) -> str:
    """A table of text as Markdown or LaTeX (for the package booktabs)."""
    heads, rows = list(table.columns), table.to_numpy().tolist()
    if form == "markdown":
        lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *rows]
        return "\n".join("| " + " | ".join(_markdown(cell) for cell in line) + " |" for line in lines)
    body = [" & ".join(_replaced(cell, _LATEX) for cell in line) + r" \\" for line in [heads, *rows]]
    columns = "l" + "r" * (len(heads) - 1)
    lines = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", body[0], r"\midrule", *body[1:], r"\bottomrule"]
    return "\n".join([*lines, r"\end{tabular}"])


def _markdown(cell: str) -> str:
    return _replaced(cell, {"|": r"\|", "<": "&lt;", ">": "&gt;", "\n": " "})


def _replaced(text: str, by: Mapping[str, str]) -> str:
    return "".join(by.get(letter, letter) for letter in text)
