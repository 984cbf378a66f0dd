"""Figures 3, 7 and 19 (left): how many examples each model needs."""

from recollect.analysis.window import THRESHOLD
from recollect.papers.estimates import Estimate, share_of
from recollect.papers.examples import ENDED, curve_table, examples_needed, examples_ratio
from recollect.papers.item import Item, lines
from recollect.papers.judge import Claim, Evidence, Test, where
from recollect.papers.questions import Finding, at_least, between, few
from recollect.papers.retrievit2026 import settings
from recollect.papers.retrievit2026.settings import Models, TaskName, blocks, differs, families, states, studied
from recollect.papers.retrievit2026.view import each, view

MORE, ORDER, ALIKE = 1.0, 10.0, 2.0
"""Ratios of examples that count as more, as an order of magnitude, and (up to this factor) as equal."""
PERCENT = f"{100 * THRESHOLD:g} %"


def _ratio(evidence: Evidence, slow: str, fast: str) -> Estimate:
    runs = view(evidence)
    for name in (slow, fast):
        evidence.whole(where(runs, name=name))
    return examples_ratio(evidence.curves, runs, slow, fast)


def _more(slow: str, fast: str, of: Models = ("",), times: float = MORE) -> Test:
    """Whether one model needs so many times the examples of another; `{}` in their names stands for each of several."""
    return each(of, lambda e, name: at_least(_ratio(e, slow.format(name), fast.format(name)), times))


def _alike(one: str, other: str, of: Models = ("",)) -> Test:
    """Whether two models need about as many examples; `{}` as above."""
    return each(of, lambda e, name: between(_ratio(e, one.format(name), other.format(name)), 1 / ALIKE, ALIKE))


def _never(evidence: Evidence, name: str) -> Finding:
    """Whether fewer than half of the runs of a model reach the accuracy."""
    runs = evidence.whole(where(examples_needed(evidence.curves, view(evidence)), name=name))
    return few(share_of(runs["reached"], f"{name}: share of runs that reach {PERCENT}"))


def _item(name: str, title: str, shows: str, part: str, task: TaskName, models: Models, *claims: Claim) -> Item:
    """An item that shows accuracy against training examples."""
    draw = lines(
        lambda e: curve_table(e.curves, view(e), settings.TITLES), "examples", "model", title=title, xlabel="training examples",
        logx=False, note=ENDED,
    )  # fmt: skip
    kind = "position" if task == "position" else "ngram"
    return Item(name, title, shows, draw, studied(part, task, models), claims, differs(kind), ("curves",))


FIG3A = _item(
    "fig3a", "N-gram retrieval: data efficiency", "hybrids need the fewest examples, then RoPE, then SSMs and NoPE", "ngram",
    "suffix", families,
    Claim("F1-hybrids-first", f"Every 1:1 interleaved and two-stream hybrid reaches {PERCENT} with fewer examples than RoPE "
          "(ratio of medians above 1)", _more("RoPE", "{}", settings.HYBRIDS)),
    Claim("F1-others-last", f"NoPE and the SSMs need more examples than RoPE to reach {PERCENT} (ratio above 1)",
          _more("{}", "RoPE", lambda scale: ("NoPE", *settings.SSMS[scale]))),
    Claim("F1-order", f"Mamba2 needs at least {ORDER:g} times the examples of the interleaved 1:1 Mamba2 hybrid",
          _more("M2", "HI-M2-1", times=ORDER)),
    Claim("F1-interleaved-best", "Two-stream Mamba2 needs more examples than interleaved 1:1 Mamba2 (ratio above 1)",
          _more("2S-M2", "HI-M2-1")),
    Claim("F1-nope-like-ssms", f"NoPE and Mamba2 need as many examples to reach {PERCENT}, up to a factor {ALIKE:g}",
          _alike("NoPE", "M2")),
    Claim("F1-mamba2-hybrids-first", "Interleaved 1:1 and two-stream hybrids of Mamba need more examples than those of Mamba2 "
          "(ratio above 1)",
          each(("HI-{}-1", "2S-{}"), lambda e, name: at_least(_ratio(e, name.format("M"), name.format("M2")), MORE))),
)  # fmt: skip
FIG3B = _item(
    "fig3b", "N-gram retrieval: size of the state", "more state helps, and is not enough to pass RoPE", "ngram-states", "suffix",
    lambda scale: ("RoPE", *states(scale)),
    Claim("state-helps", f"An SSM with four times the state reaches {PERCENT} with fewer examples (ratio above 1)",
          _more("{}", "{}x4", settings.SSMS)),
    Claim("state-not-enough", "Even with four times the state an SSM needs more examples than RoPE (ratio above 1)",
          _more("{}x4", "RoPE", settings.SSMS)),
)  # fmt: skip
FIG3C = _item(
    "fig3c", "N-gram retrieval: SSM layers to a Transformer layer", "up to three SSM layers to one pass RoPE", "ngram-blocks",
    "suffix", lambda scale: ("RoPE", *settings.SSMS[scale], *blocks(scale)),
    Claim("few-blocks", f"Interleaved hybrids with N < 4 reach {PERCENT} with fewer examples than RoPE (ratio above 1)",
          _more("RoPE", "{}", lambda scale: [name for name in blocks(scale) if not name.endswith("4")])),
    Claim("one-in-five", "With N = 4 a hybrid still needs fewer examples than the SSM alone (ratio above 1)",
          _more("{}", "HI-{}-4", settings.SSMS)),
)  # fmt: skip
FIG7A = _item(
    "fig7a", "Position retrieval: data efficiency", "RoPE first, hybrids and NoPE later, SSMs not at all", "position", "position",
    families,
    Claim("F4-rope-first", f"NoPE and every hybrid need more examples than RoPE to reach {PERCENT} (ratio above 1)",
          _more("{}", "RoPE", lambda scale: ("NoPE", *settings.HYBRIDS[scale]))),
    Claim("F4-hybrids-like-nope", f"Every hybrid needs as many examples as NoPE to reach {PERCENT}, up to a factor {ALIKE:g}",
          _alike("{}", "NoPE", settings.HYBRIDS)),
    Claim("F4-ssms-never", f"Fewer than half of the runs of an SSM reach {PERCENT} within the budget (paper: none)",
          each(settings.SSMS, _never)),
)  # fmt: skip
FIG7B = _item(
    "fig7b", "Position retrieval: size of the state", "no size of the state suffices", "position-states", "position",
    lambda scale: ("RoPE", *states(scale)),
    Claim("F4-no-state", f"With two and with four times the state fewer than half of an SSM's runs reach {PERCENT} (paper: none)",
          each(lambda scale: [name for name in states(scale) if "x" in name], _never)),
)  # fmt: skip
FIG7C = _item(
    "fig7c", "Position retrieval: SSM layers to a Transformer layer", "more Transformer layers, fewer examples",
    "position-blocks", "position", lambda scale: ("RoPE", *settings.SSMS[scale], *blocks(scale)),
    Claim("F4-dense-attention", f"Interleaved 4:1 needs more examples than 1:1 to reach {PERCENT} (ratio above 1)",
          _more("HI-{}-4", "HI-{}-1", settings.SSMS)),
)  # fmt: skip
FIG19 = _item(
    "fig19", "Position retrieval: reverse gating (left)", "with the gate on the Mamba stream a two-stream model learns sooner",
    "position-reverse", "position", ("RoPE", "2S-M2", "2SR-M2"),
    Claim("reverse-sooner", f"Two-stream needs more examples than reverse two-stream to reach {PERCENT} (ratio above 1)",
          _more("2S-M2", "2SR-M2")),
    Claim("reverse-like-rope", f"Reverse two-stream and RoPE need as many examples to reach {PERCENT}, up to a factor {ALIKE:g}",
          _alike("2SR-M2", "RoPE")),
)  # fmt: skip
