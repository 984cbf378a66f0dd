"""Learning rates that follow a model's width, so that the best rate of a narrow model is that of a wide one (muP).

Yang et al. 2022, Table 8, with multipliers folded into initial values and rates, which gives the same training: with m times
the base width, the AdamW rate of a matrix from a width to a width, and of what scales the logits (the head, or the gain of the
last norm where the head is the embedding), is divided by m; embeddings, norms and biases have the rate itself. For
gradient descent, whose steps grow with the gradient, matrices have the rate itself, what scales the logits 1 / m, the others m.
Initial values are in models/initialise.py. Weight decay stays a share of each parameter's own rate.
"""

from typing import TYPE_CHECKING

from recollect.models.initialise import readout, width_ratios
from recollect.models.model import outline

if TYPE_CHECKING:
    from recollect.train.spec import RunSpec


def rate_factors(run: "RunSpec") -> dict[str, float]:
    """What multiplies the learning rate of a parameter, by name, where that is not 1."""
    if run.model.parametrisation == "standard" or run.model.width == run.model.base_width:
        return {}
    wider = run.model.width / run.model.base_width
    model = outline(run.model, run.task.vocabulary, run.row_length)
    last, by_gradient = readout(model), run.train.built_optimiser.scales_with_gradient
    factors = {}
    for name, (matrix, ratio) in width_ratios(model).items():
        if name in last:
            factors[name] = 1 / wider
        elif by_gradient:
            factors[name] = 1.0 if matrix else ratio
        else:
            factors[name] = 1 / ratio if matrix else 1.0
    return {name: factor for name, factor in factors.items() if factor != 1}
