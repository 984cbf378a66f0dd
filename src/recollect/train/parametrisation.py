"""Learning rates that follow a model's width, so that the best rate of a narrow model is that of a wide one (muP).

Yang et al. 2022, Table 8, with multipliers folded into initial values and rates, which gives the same training: with m times
the base width, the AdamW rate of a matrix from a width to a width, and of what scales the logits (the head, or the gain of the
last norm where the head is the embedding), is divided by m; embeddings, norms and biases have the rate itself. For
gradient descent, whose steps grow with the gradient, matrices have the rate itself, what scales the logits 1 / m, the others m.
A step of Muon on a square matrix has a spectral norm of sqrt(width) times the rate, where AdamW's has the width: its rate is
divided by sqrt(m), so that steps keep the norm sqrt(outputs / inputs) of Yang, Simon & Bernstein 2023.
Initial values are in models/initialise.py. Weight decay stays a share of each parameter's own rate.
"""

import math
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
    optimiser, last = run.train.built_optimiser, readout(model)
    orthogonal = optimiser.orthogonalised(dict(model.named_parameters()))
    factors = {}
    for name, (matrix, ratio, outputs) in width_ratios(model).items():
        if name in last:
            factors[name] = 1 / wider
        elif optimiser.scales_with_gradient:
            factors[name] = 1.0 if matrix else ratio
        elif matrix:
            factors[name] = (math.sqrt(outputs) if name in orthogonal else 1.0) / ratio
    return {name: factor for name, factor in factors.items() if factor != 1}
