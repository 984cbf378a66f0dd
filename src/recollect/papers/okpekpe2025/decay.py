"""Section 7: the size of the mixing matrix's off-diagonal terms against distance, before and after training."""

from collections.abc import Iterator

import pandas as pd
import safetensors.torch

from recollect.analysis.rates import at_best
from recollect.figures.panels import mean_and_range
from recollect.inspect.mixing import decay_rate, distance_profiles
from recollect.models.model import Model, build
from recollect.papers.estimates import Estimate, mean_of, some
from recollect.papers.item import Item, lines
from recollect.papers.judge import Evidence, claims
from recollect.papers.okpekpe2025.cells import PRINTED, widest
from recollect.papers.okpekpe2025.settings import differs
from recollect.papers.okpekpe2025.windows import NEWER, fig7_studies
from recollect.papers.questions import Finding, every, exceeds
from recollect.study.packing import CPU_COHORT, GPU_COHORT, pack
from recollect.train.events import Ended
from recollect.train.loop import train
from recollect.train.spec import RunSpec

FASTER = 0.05
"""Nats a token by which decay must be faster to count."""
ROWS = 16
"""Rows of the task over which sizes are averaged."""


def measure(evidence: Evidence, runs: list[RunSpec], device: str) -> pd.DataFrame:
    """Profiles at the start and the end of training, of each model at its largest width and best rate."""
    by_id, frames = {run.id: run for run in runs}, []
    for name in NEWER:
        own = widest(evidence.runs.loc[evidence.runs["model"] == name])
        chosen = [by_id[id] for id in own.loc[at_best(own, ["model"]), "id"]]
        for run, start, end in before_and_after(chosen, device):
            tokens = run.task.for_test().batch(run.train.seed, "test", ROWS).tokens
            for when, model in (("start", start), ("end", end)):
                profile = distance_profiles(model, tokens)
                frames.append(profile.assign(model=name, seed=run.train.seed, when=when, lr=run.train.lr))
    return pd.concat(frames) if frames else pd.DataFrame()


def before_and_after(runs: list[RunSpec], device: str = "cpu") -> Iterator[tuple[RunSpec, Model, Model]]:
    """Each run with its model as it starts and as it ends, by training it again, which gives the same numbers: no store has
    weights."""
    for cohort in pack(runs, GPU_COHORT if device.startswith("cuda") else CPU_COHORT):
        for event in train(cohort, device, every=float("inf"), weights=True):
            if isinstance(event, Ended) and event.weights is not None:
                run = event.run
                shape = run.model, run.task.vocabulary, run.row_length
                start, end = (build(*shape, run.train.seed).eval() for _ in range(2))
                end.load_state_dict(safetensors.torch.load(event.weights), strict=False)  # buffers are not stored
                yield run, start, end


def _numbers(evidence: Evidence) -> pd.DataFrame:
    """Size against distance, over that at distance 1, at the start and the end of training."""
    found = evidence.measured
    if len(found):
        found = found.loc[found["distance"] >= 1]
        key = ["model", "seed", "when", "mixer"]
        near = found.loc[found["distance"] == 1, [*key, "size"]].rename(columns={"size": "near"})
        found = found.merge(near, on=key)
        found = found.assign(size=found["size"] / found["near"])
    return mean_and_range(found, ["when", "model", "distance"], "size")


def _rate(evidence: Evidence, name: str, when: str) -> Estimate:
    found = evidence.measured
    own = found.loc[(found["model"] == name) & (found["when"] == when)] if len(found) else found
    own = some(own, f"no mixing matrix of {name}")
    profiles = own.pivot_table(index="seed", columns="distance", values="size", aggfunc="mean")  # one row per seed
    return mean_of([decay_rate(profile) for profile in profiles.to_numpy(float)], f"{name}: nats per token")


@claims("faster-at-the-{name}", ("start", "end"), PRINTED)
def _faster(when: str, evidence: Evidence) -> Finding:
    """At the {name} of training the off-diagonal terms of Mamba and Mamba2 fade faster with distance than DeltaNet's, each by at
    least {FASTER} nats per token"""
    deltanet = _rate(evidence, "deltanet", when)
    return every(("mamba", "mamba2"), lambda name: exceeds(_rate(evidence, name, when), deltanet, by=FASTER))


DECAY = Item(
    "decay", "Decay of the mixing matrix", "terms far from the diagonal fade in Mamba and Mamba2, not in DeltaNet",
    lines(
        _numbers, "distance", "model", "when", title="Off-diagonal terms of the mixing matrix", xlabel="distance in tokens",
        ylabel="mean size, over that at distance 1", logx=False, ylim=None,
    ),
    fig7_studies,
    _faster,
    differs(
        "The paper argues this and shows no figure. Best rate, largest width of Figure 7.", batch=64
    ),
    measure=measure,
)  # fmt: skip
