"""Figures 8, 13, 19 (right), 17 and 18: how position retrieval is learnt."""

import math
from collections.abc import Callable, Sequence
from functools import partial

import pandas as pd

from recollect.analysis.dynamics import leaves, uninformed_loss
from recollect.analysis.gates import fusion, gate_traces
from recollect.analysis.positions import SerialPosition, position_matrix, serial_position
from recollect.figures.grids import heatmaps_figure, long_table
from recollect.figures.panels import mean_and_range
from recollect.papers.estimates import Estimate, mean_of, some
from recollect.papers.examples import ENDED, curve_table
from recollect.papers.item import Drawing, Item, lines
from recollect.papers.judge import Claim, Evidence, claim
from recollect.papers.questions import Finding, all_of, at_least, at_most, every, exceeds
from recollect.papers.retrievit2026 import settings
from recollect.papers.retrievit2026.settings import Models, at_scale, differs, families, studied
from recollect.papers.retrievit2026.view import HALF, best_learnt, each, learnt, mean_over_seeds, of, rows_of, view

ENDS_FIRST, SUDDEN, DEEPER, OPEN, LATER = 0.3, 0.35, 0.05, 0.05, 2.0
"""The least lead of an end over the middle in accuracy; the most of training that a sudden transition takes; the least by which
deep gates are more open; the least opening of an open gate; how many times as long a model that is late stays on the plateau."""


def _serial(evidence: Evidence, name: str, least: float = 0.0) -> list[SerialPosition]:
    """How each run of a model that reaches an accuracy learns the positions: one per seed."""
    some(evidence.slices, "there is no accuracy by position")

    def of_run(run: str) -> SerialPosition | None:
        matrix = position_matrix(rows_of(evidence.slices, [run]))
        return serial_position(matrix) if matrix.size else None

    ids = learnt(of(evidence, name), name, least)["id"]
    found = [evidence.once(f"positions of {run}", lambda _, run=run: of_run(run)) for run in ids]
    return [one for one in found if one is not None]


def _measured(
    evidence: Evidence, name: str, what: Callable[[SerialPosition], float], label: str, least: float = 0.0
) -> Estimate:
    """A number of `_serial`, with a variance that the item's models share."""
    return mean_over_seeds(
        evidence, name, lambda of: [what(one) for one in _serial(evidence, of, least)], f"{name}: {label}"
    )


def _ends_first(evidence: Evidence, name: str) -> Finding:
    """Whether both ends lead: the first positions and the last, each at a time of its own."""
    return all_of(
        at_least(_measured(evidence, name, lambda one: one.head_lead, "lead of the first positions"), ENDS_FIRST),
        at_least(_measured(evidence, name, lambda one: one.tail_lead, "lead of the last positions"), ENDS_FIRST),
    )


def _at_once(evidence: Evidence) -> Finding:
    label = "lead of the first or the last positions"
    return at_most(_measured(evidence, "RoPE", lambda one: max(one.head_lead, one.tail_lead), label, HALF), ENDS_FIRST)


def _rise(evidence: Evidence, name: str) -> Estimate:
    return _measured(evidence, name, lambda one: one.rise, "share of training from 10 % to 90 % of its accuracy", HALF)


def _plateau_left(evidence: Evidence, name: str) -> Estimate:
    """The examples after which the training loss stays below that of a model that knows nothing; infinite: never."""
    ids, found = of(evidence, name)["id"], []
    curves = some(evidence.curves, "there are no curves").sort_values("step")
    for run in ids:
        curve = rows_of(curves, [run])
        left = leaves(curve["examples"], curve["train_loss"], _loss(evidence))
        found.append(left if left == left else math.inf)
    return mean_of(found, f"{name}: examples on the plateau")


def _leave_first(models: Models, times: float, evidence: Evidence) -> Finding:
    """Whether RoPE stays on the plateau at least `times` as long as each of these models."""
    rope = _plateau_left(evidence, "RoPE")

    def before(name: str) -> Finding:
        left = _plateau_left(evidence, name)
        label = f"{left.name}, times {times:g}" if times != 1 else left.name
        return exceeds(rope, Estimate(label, times * left.value, times * left.low, times * left.high, left.seeds))

    return every(at_scale(models, evidence.scale), before)


def _gates(evidence: Evidence) -> pd.DataFrame:
    """Gates of the two-stream runs; empty where no curve has a gate."""
    if evidence.curves.empty or not any(str(name).startswith("gate.") for name in evidence.curves):
        return pd.DataFrame(columns=["run", "step", "examples", "layer", "gate", "progress"])
    return gate_traces(rows_of(evidence.curves, view(evidence)["id"]))


@claim("deep-fuse")
def _deep_fuse(evidence: Evidence) -> Finding:
    """At the end of training the gates (|tanh b|) of the deep half of the layers are on average at least {DEEPER} more open
    than those of the shallow half"""
    ends = fusion(some(_gates(evidence), "there are no gates"))
    return at_least(mean_of(ends["deep"] - ends["shallow"], "deep minus shallow gates"), DEEPER)


@claim("all-open-midway")
def _all_open(evidence: Evidence) -> Finding:
    """In the middle third of training the gate of every layer comes to at least {OPEN}"""
    traces = _gates(evidence)
    middle = traces.loc[(traces["progress"] > 1 / 3) & (traces["progress"] <= 2 / 3)]
    widest = some(middle, "there are no gates").pivot_table(index="run", columns="layer", values="gate", aggfunc="max")
    return at_least(mean_of(widest.min(axis=1), "the least open layer in the middle third of training"), OPEN)


def _by_position(title: str, names: Sequence[str], evidence: Evidence, caption: str) -> Drawing:
    """Accuracy by progress of training (up) and target position (along), a panel per model."""
    runs, cells = view(evidence), {}
    for name in names:
        slices = rows_of(evidence.slices, best_learnt(runs.loc[runs["name"] == name])["id"])
        if len(slices):
            cells["", settings.TITLES[name]] = position_matrix(slices).rename(columns=lambda place: place + 1)
    note = f"Progress: of each run's own length; of runs that have learnt (accuracy {HALF}), where some have."
    figure = heatmaps_figure(
        cells, ("",), [settings.TITLES[name] for name in names], title=title, caption=f"{caption} {note}",
        xlabel="target position", ylabel="progress of training", value="accuracy",
    )  # fmt: skip
    return figure, long_table(cells, ("progress", "position"), "accuracy")


def _loss(evidence: Evidence) -> float:
    """The loss of a model that knows nothing."""
    return uninformed_loss(settings.SETTINGS[evidence.scale].position)


def _gates_by_layer(evidence: Evidence) -> pd.DataFrame:
    """|tanh b| of each layer over training."""
    wide = _gates(evidence).pivot_table(index="examples", columns=["layer", "run"], values="gate").ffill()
    long = wide.T.reset_index().melt(["layer", "run"], var_name="examples", value_name="gate")
    return mean_and_range(long.assign(layer=[f"layer {n + 1}" for n in long["layer"]]), ["layer", "examples"], "gate")


def _item(name: str, title: str, shows: str, part: str, models: Sequence[str], *claims: Claim, panels: str) -> Item:
    """An item that shows accuracy by target position; `panels` is the title of the picture."""
    draw, trained = partial(_by_position, panels, models), studied(part, "position", models)
    return Item(name, title, shows, draw, trained, claims, differs("position"), ("slices",))


_LEAD = (
    "the first tenth of the positions and the last tenth each lead over the middle half, at some time in training, by at least "
    f"{ENDS_FIRST} in accuracy"
)
FIG8 = _item(
    "fig8", "Position retrieval: accuracy by position", "SSMs learn the ends first, Transformers all at once", "position-four",
    settings.FOUR,
    Claim("F5-ssm-ends", f"In Mamba2 {_LEAD}", each(("M2",), _ends_first)),
    Claim("F5-rope-at-once", f"In the runs of RoPE that have learnt the task (accuracy at least {HALF}) neither the first nor "
          f"the last tenth of the positions ever leads by more than {ENDS_FIRST}", _at_once),
    Claim("F5-rope-sudden", "In the runs of RoPE that have learnt the task accuracy goes from a tenth to nine tenths of where it "
          f"ends within at most {SUDDEN} of their training", lambda e: at_most(_rise(e, "RoPE"), SUDDEN)),
    Claim("F5-hybrids-ends", f"In interleaved 1:1 and two-stream Mamba2 {_LEAD}", each(settings.M2_HYBRIDS, _ends_first)),
    panels="Accuracy by target position",
)  # fmt: skip
FIG13 = _item(
    "fig13", "Position retrieval: accuracy by position, interleaved", "N = 1 is learnt more suddenly, N > 1 like an SSM",
    "position-m2-blocks", settings.M2_BLOCKS,
    Claim("F5-sparse-like-ssm", f"In interleaved Mamba2 with N = 2, 3, 4 {_LEAD}", each(settings.M2_BLOCKS[1:], _ends_first)),
    Claim("F5-dense-steeper", "In the runs that have learnt the task, interleaved 1:1 goes from a tenth to nine tenths of its "
          "final accuracy within a smaller share of training than N = 2, 3 and 4",
          each(settings.M2_BLOCKS[1:], lambda e, name: exceeds(_rise(e, name), _rise(e, settings.M2_BLOCKS[0])))),
    panels="Accuracy by target position, interleaved N:1",
)  # fmt: skip
FIG19_RIGHT = _item(
    "fig19-right", "Position retrieval: accuracy by position, reverse gating", "reverse gating learns as other hybrids do",
    "position-gating", ("2S-M2", "2SR-M2"),
    Claim("F5-reverse-ends", f"In reverse two-stream Mamba2 {_LEAD}", each(("2SR-M2",), _ends_first)),
    panels="Accuracy by target position, reverse two-stream",
)  # fmt: skip
FIG17 = Item(
    "fig17", "Position retrieval: training loss",
    "SSMs leave the plateau of the uninformed loss first, Transformers late and suddenly",
    lines(
        lambda e: curve_table(e.curves, view(e), settings.TITLES, "train_loss"), "examples", "model",
        title="Training loss in position retrieval", xlabel="training examples", ylabel="training loss in nats", logx=False,
        ylim=None, level=_loss,
        note=lambda e: f"{ENDED} Grey: log(length) / 2 = {_loss(e):.2f}, the loss of a model that knows nothing.",
    ),
    studied("position", "position", families),
    (
        Claim("hybrids-leave-first", "The training loss of the hybrids stays below log(length) / 2 by 2 % after fewer examples "
              "than RoPE's", partial(_leave_first, settings.HYBRIDS, 1.0)),
        Claim("ssms-leave-much-sooner", f"RoPE's training loss needs at least {LATER:g} times as many examples as that of the "
              "SSMs to stay below log(length) / 2 by 2 % (paper: 7 M against 2 M)", partial(_leave_first, settings.SSMS, LATER)),
    ),
    differs("position", paper="NoPE is drawn too."), ("curves",),
)  # fmt: skip
FIG18 = Item(
    "fig18", "Position retrieval: gates", "deep layers fuse the two streams",
    lines(
        _gates_by_layer, "examples", "layer", title="Gates of the two-stream model", xlabel="training examples",
        ylabel="|tanh b|", logx=False, ylim=None, note=ENDED,
    ),
    studied("position-gates", "position", ("2S-M2",)), (_deep_fuse, _all_open), differs("position"), ("curves",),
)  # fmt: skip
