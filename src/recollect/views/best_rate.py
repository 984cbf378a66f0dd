"""The best learning rate against width, or against another size."""

from recollect.views.base import Choice, Frames
from recollect.views.fields import choose
from recollect.views.scaling import RATES, Scaling


class BestRate(Scaling):
    """The best learning rate against a size."""

    title = "Best learning rate"
    about = (
        "The learning rate with the highest mean accuracy on validation rows, of each configuration. Band: lowest to highest "
        "where a point stands for several configurations."
    )

    def choices(self, frames: Frames) -> list[Choice]:
        found = {choice.name: choice for choice in super().choices(frames)}
        if not found or frames.runs["train.lr"].nunique() < 2:
            return []
        x = found["x"]
        first = "model.width" if "model.width" in x.options else x.default
        changed = {
            "x": Choice("x", "x", x.options, first), "y": choose("y", "y", ["train.lr"]),
            "rate": Choice("rate", RATES.label, {"best": RATES.options["best"]}, "best"),
        }  # fmt: skip
        return list((found | changed).values())
