"""What the controls claim: whether what the paper leaves unstated moves windows and accuracies, as questions to the runs.

A claim of `readings` that does not hold says that the reading matters.
"""

import re
from collections.abc import Callable

import pandas as pd

from recollect.analysis.window import THRESHOLD
from recollect.papers.estimates import Estimate
from recollect.papers.judge import Claim, Evidence, where
from recollect.papers.okpekpe2025.cells import printed
from recollect.papers.okpekpe2025.stability import WIDER
from recollect.papers.questions import Finding, all_of, at_least, every, exceeds, not_, within

MORE = 0.1
"""Accuracy by which a model must recall more with one filler to count."""
WITHOUT_CONVOLUTION = ("mamba(conv=False)", "s6")


def _window(evidence: Evidence, name: str, filler: str) -> Estimate:
    return evidence.window(evidence.where(model=name, layers=2, filler=filler), f"{name}, {filler} filler: decades")


def _recalls_more(evidence: Evidence, name: str, layers: int) -> Finding:
    """Whether a model recalls more with blank filler than with random filler, each at its best rate."""
    blank, random = (
        evidence.best(evidence.where(model=name, layers=layers, filler=filler), f"{name}, {filler} filler")
        for filler in ("blank", "random")
    )
    return exceeds(blank, random, by=MORE)


FILLER = (
    Claim(
        "filler-widens-mamba",
        f"With 2 layers, Mamba's window with blank filler is at least {WIDER} decades wider than with random filler",
        lambda e: exceeds(*(_window(e, "mamba", filler) for filler in ("blank", "random")), by=WIDER),
        printed(),
    ),
    Claim(
        "filler-leaves-attention",
        f"With 2 layers, attention's windows with blank and with random filler differ by at most {WIDER} decades",
        lambda e: within(*(_window(e, "attention", filler) for filler in ("blank", "random")), margin=WIDER),
        printed(),
    ),
    Claim(
        "filler-helps-recurrent",
        f"With 2 layers, Hyena, H3 and RWKV each recall at least {MORE} more with blank filler than with random filler, at their "
        "best rates",
        lambda e: every(("hyena", "h3", "rwkv"), lambda name: _recalls_more(e, name, 2)),
        printed(),
    ),
    Claim(
        "filler-helps-without-convolution",
        f"With 1 layer, Mamba without its convolution and S6 each recall at least {MORE} more with blank filler than with random "
        "filler, at their best rates",
        lambda e: every(WITHOUT_CONVOLUTION, lambda name: _recalls_more(e, name, 1)),
        printed(),
    ),
)

Read = Callable[[Evidence], pd.DataFrame]


def stopping_claims(read: Read, last: str, best: str, stop: str) -> tuple[Claim, ...]:
    """Claims about the runs read by each rule: `read` gives them with the column `rule`."""

    def decades(evidence: Evidence, name: str, rule: str) -> Estimate:
        runs = where(evidence.once("read", read), model=name, rule=rule).drop(columns="final.valid", errors="ignore")
        return evidence.window(evidence.whole(runs), f"{name}, {rule}: decades")

    def claim(name: str, says: str, test: Callable[[Evidence], Finding]) -> Claim:
        return Claim(name, says, test, printed(), by_best_epoch=False)

    return (
        claim(
            "stopping-widens-attention",
            f"With 2 layers, attention's window is at least {WIDER} decades wider by the best measurement than by the last step",
            lambda e: exceeds(decades(e, "attention", best), decades(e, "attention", last), by=WIDER),
        ),
        claim(
            "stopping-leaves-mamba",
            f"With 2 layers, Mamba's windows by the best measurement and by the last step differ by at most {WIDER} decades",
            lambda e: within(decades(e, "mamba", best), decades(e, "mamba", last), WIDER),
        ),
        claim(
            "stopping-at-99-like-best",
            f"With 2 layers, a stop at 99 % gives attention and Mamba windows within {WIDER} decades of those of the best "
            "measurement",
            lambda e: every(
                ("attention", "mamba"), lambda name: within(decades(e, name, stop), decades(e, name, best), WIDER)
            ),
        ),
    )


def reading_claims(named: Callable[[Evidence], pd.DataFrame], of_windows: list[str]) -> tuple[Claim, ...]:
    """Claims about the readings: `named` gives the runs with the column `reading`, `of_windows` are those with windows."""

    def runs(evidence: Evidence, reading: str) -> pd.DataFrame:
        return evidence.whole(where(evidence.once("readings", named), reading=reading))

    def same_window(reading: str, base: str) -> Callable[[Evidence], Finding]:
        return lambda e: within(
            *(e.window(runs(e, name), f"{name}: decades") for name in (reading, base)), margin=WIDER
        )

    def recalls(evidence: Evidence, reading: str) -> Finding:
        return at_least(evidence.best(runs(evidence, reading), reading), THRESHOLD)

    def differ(with_: str, without: str) -> Callable[[Evidence], Finding]:
        return lambda e: all_of(lambda: recalls(e, with_), lambda: not_(recalls(e, without)))

    bases = {"attention": "attention", "mamba": of_windows[0]}
    windows = [
        Claim(
            f"reading-{re.sub(r'[^a-z0-9]+', '-', reading.lower())}",
            f"2 layers, {reading}: the window is within {WIDER} decades of that of {bases[kind]}",
            same_window(reading, bases[kind]),
            printed(),
        )
        for reading in of_windows
        if reading not in bases.values()
        for kind in ["attention" if reading.startswith("attention") else "mamba"]
    ]
    return (
        *windows,
        Claim(
            "reading-s6-needs-convolution",
            f"1-layer S6 with Mamba's convolution reaches {THRESHOLD}, and without it does not",
            differ("S6 with Mamba's convolution", "S6 without convolution"),
            printed(),
        ),
        Claim(
            "reading-v-needs-centred",
            f"1-layer attention with a centred convolution on v reaches {THRESHOLD}, and with a causal one does not",
            differ("attention, centred convolution on v", "attention, causal convolution on v"),
            printed(),
        ),
        Claim(
            "reading-k-either-way",
            f"1-layer attention with a convolution on k reaches {THRESHOLD}, causal or centred",
            lambda e: every(("causal", "centred"), lambda how: recalls(e, f"attention, {how} convolution on k")),
            printed(),
        ),
    )
