"""The sections of a page: its configurations, the description of each study, and a reproduction's verdicts."""

from collections import Counter
from html import escape
from typing import Any

from recollect.reporting.markup import SIGNS, cell, part, pills, short, span, table, terms, verdict

_HEADS = (
    ("configuration", "the fields in which runs differ, without learning rate and seed"), ("study", "the study"),
    ("accuracy", "final, mean over seeds at the best learning rate"),
    ("over seeds", "lowest and highest seed at that rate"),
    ("best rate", "the learning rate with the highest mean"),
    ("its interval", "95 % bootstrap interval of the best rate, over seeds"),
    ("window", "decades of learning rate on which the mean over seeds reaches the threshold; ≥: it goes on beyond those tried"),
    ("95 % interval", "of the window, bootstrap over seeds"), ("single seeds", "narrowest and widest window of one seed"),
    ("from", "lower edge of the window"), ("to", "upper edge of the window"),
    ("best checkpoints", "the window, in decades, of each run's best validation accuracy instead of its last test accuracy"),
    ("sensitivity", "accuracy lost on average at a rate drawn from 3e-4 to 1e-1, over the best rate"),
    ("by loss", "the same in nats of test loss"), ("Zoology's 4 rates", "whether one of Zoology's four rates lies in a window"),
    ("state size", "numbers that the recurrent state or cache holds"), ("parameters", "of the model"),
    ("runs", "that have ended"), ("diverged", "runs that diverged"),
)  # fmt: skip


def configurations_section(rows: list[dict[str, Any]], threshold: float, several: bool) -> str:
    """The table of configurations."""
    if not rows:
        return ""

    def cells(row: dict[str, Any]) -> list[tuple[str, Any]]:
        def fixed(key: str, form: str) -> tuple[str, Any]:
            value = row.get(key)
            return cell(value, "" if value is None else format(value, form))

        def between(low: str, high: str, form: str = ".2f") -> tuple[str, Any]:
            return cell(row.get(low), span(row.get(low), row.get(high), form))

        found = row.get("decades") or 0
        at_least = "≥ " if row.get("open_low") or row.get("open_high") else ""
        finds = ("find it" if row["zoology_finds"] else "miss it") if found else ""
        return [
            cell(row["configuration"]), cell(row["study"] if several else ""), fixed("accuracy", ".3f"),
            between("lowest", "highest", ".3f"), fixed("best_rate", ".3g"), between("best_lr_low", "best_lr_high", ".2g"),
            cell(row.get("decades"), f"{at_least}{found:.2f}" if found else "none" if "decades" in row else ""),
            between("interval_low", "interval_high"), between("seed_min", "seed_max"),
            *(fixed(edge, ".2g") if found else ("", None) for edge in ("low", "high")),
            fixed("checkpoint_decades", ".2f") if row.get("checkpoint_decades") else ("", 0),
            fixed("sensitivity", ".3f"), fixed("loss_sensitivity", ".3f"), cell(finds, finds), cell(row["state_size"]),
            cell(row["parameters"]), cell(row["runs"]), cell(row["diverged"], str(row["diverged"] or "")),
        ]  # fmt: skip

    attributes = [f'data-study="{escape(row["study"])}"' for row in rows]
    note = f"At each one's best learning rate. Window: decades of learning rate with a mean accuracy of at least {threshold:g}."
    if any("decades" in row for row in rows) and not any("interval_low" in row for row in rows):
        note += " Intervals over seeds are left out: there are too many runs."
    return (
        f'<section id="configurations"><h2>Configurations</h2><p class="soft">{note}</p>'
        f"{table(_HEADS, map(cells, rows), attributes, 'Configurations')}</section>"
    )


def question(study: dict[str, Any]) -> str:
    """What a study asked, and how its runs ended."""
    counts = [(study["planned"], "runs, all ended" if study["planned"] == study["ended"] else "runs"),
              *((count, status) for status, count in study["statuses"].items()), (study["failed"], "failed"),
              (study["planned"] - study["ended"], "without a result")]  # fmt: skip
    return f'<p class="question">{escape(study["question"])}</p>{pills(counts)}'


def study_section(study: dict[str, Any], alone: bool) -> str:
    """The description of one study; the head of the page has the question of one that is `alone`."""
    none = "" if study["ended"] else "<p>No run of this study has ended yet.</p>"
    asked, name = "" if alone else question(study), escape(study["name"])
    body = f"{asked}{none}{_failures(study)}{_specification(study)}{_provenance(study['provenance'])}"
    return f'<section class="study" data-study="{name}"><h2>{name}</h2>{body}</section>'


def _failures(study: dict[str, Any]) -> str:
    parts = [
        part(
            failure["error"],
            terms([
                ("run", failure["run"]), ("which is", failure["about"] or "not in the study file"),
                ("attempt", str(failure["attempt"])), ("time", failure["when"]),
                ("in the end", f"it ended: {failure['ended']}" if failure["ended"] else "it has no result"),
            ]) + f"<pre>{escape(failure['traceback'])}</pre>",
        ) for failure in study["failures"]
    ]  # fmt: skip
    return part(f"Failures ({len(parts)})", "".join(parts), study["failed"] > 0) if parts else ""


def _specification(study: dict[str, Any]) -> str:
    unknown = "".join(f"<li>{escape(text)}</li>" for text in study["unknowns"])
    shared = terms((name, short(value)) for name, value in study["shared"].items())
    return part(
        "Specification",
        f'<h3>The study file</h3><pre class="source">{escape(study["source"])}</pre>'
        + (f"<h3>What no source states, and the value chosen</h3><ul>{unknown}</ul>" if unknown else "")
        + (f"<h3>What all runs share</h3>{shared}" if study["shared"] else ""),
    )


def _provenance(made: dict[str, Any] | None) -> str:
    if made is None:
        return ""

    def counted(pairs: list[tuple[str, int]]) -> str:
        return "; ".join(f"{text} ({count} {'run' if count == 1 else 'runs'})" for text, count in pairs) or "none"

    return part("Provenance", terms([
        ("made with", counted(made["versions"])), ("on", counted(made["devices"])),
        ("results from", f"{made['first']} to {made['last']}"), ("training time", f"{short(made['seconds'])} s in sum"),
        ("notes", counted(made["notes"])), ("to train it again", made["command"]),
    ]))  # fmt: skip


def reproduction_section(found: dict[str, Any]) -> str:
    """Verdicts first, then each item with its picture and its numbers."""
    heads = [(name, "") for name in ("item", "verdict", "claim", "numbers", "note", "scale")]
    rows = [
        [(f'<a href="#item-{escape(v["item"])}">{escape(v["item"])}</a>', v["item"]),
         (verdict(v["answer"]), v["answer"]), cell(v["says"]),
         (terms(v["numbers"].items()), ""), cell(v["note"], v["note"]), cell(v["scale"])] for v in found["verdicts"]
    ]  # fmt: skip
    answers = Counter(v["answer"] for v in found["verdicts"])
    counts = pills((answers[answer], answer) for answer in dict.fromkeys((*SIGNS, *answers)))
    body = table(heads, rows, name="Verdicts") if rows else "<p>There are no verdicts yet.</p>"
    items = "".join(map(_item, found["items"]))
    return f'<section id="verdicts"><h2>Verdicts</h2>{counts}{body}{items}</section>'


def _item(item: dict[str, Any]) -> str:
    numbers, name = item["numbers"], escape(item["name"])
    text = "".join(
        f"<p{kind}>{escape(item[key])}</p>"
        for key, kind in (("shows", ""), ("differs", " class=soft"))
        if item.get(key)
    )
    alt = escape(f"{item['title']}. {item.get('shows') or ''}")
    picture = f'<figure><img src="{item["picture"]}" alt="{alt}"></figure>' if item["picture"] else ""
    rows = ""
    if numbers is not None:
        some = f"{len(numbers['rows'])} of " if numbers["of"] > len(numbers["rows"]) else ""
        cells = ([cell(value) for value in row] for row in numbers["rows"])
        body = table([(column, "") for column in numbers["columns"]], cells)
        rows = part(f"Numbers of {item['name']} ({some}{numbers['of']} rows)", body)
    return f'<section id="item-{name}"><h3>{escape(item["title"])}</h3>{text}{picture}{rows}</section>'
