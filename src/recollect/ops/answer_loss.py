"""The head at answer positions, and its cross-entropy.

    logits_i = W x_i        loss_i = -log softmax(logits_i)[answer_i]        right_i = (answer_i = argmax logits_i)

Shapes: x (..., width), W (vocabulary, width), answers, losses, right (...).
"""

import torch
from torch import Tensor

from recollect.ops import triton as kernels
from recollect.ops.fused import kernel_dtype
from recollect.ops.op import op
from recollect.ops.precision import HALF

MAX_WIDTH = 256
"""Wider hidden states do not fit the kernel's registers."""


def cross_entropy(logits: Tensor, answers: Tensor) -> Tensor:
    """Cross-entropy of each answer, in float32 at least: logits (..., vocabulary), answers (...) -> (...)."""
    logits = logits.float() if logits.dtype in HALF else logits
    return -logits.log_softmax(-1).gather(-1, answers[..., None])[..., 0]


def answer_loss(x: Tensor, w: Tensor, answers: Tensor, z_loss: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Losses, and which answers are right; in bf16 on a GPU without storing the logits (there a tie counts as right).

    z_loss: what multiplies log(sum exp logits)^2 in the losses (Chowdhery et al. 2022); with it logits are stored.
    """
    dtype = kernel_dtype(x)
    if z_loss is None and dtype is not None and x.shape[-1] <= MAX_WIDTH:
        rows = x.to(dtype).reshape(1, -1, x.shape[-1])
        losses, _, right = _fused(rows, w[None], answers.reshape(1, -1))
        return losses.view(answers.shape), right.view(answers.shape)
    logits = torch.nn.functional.linear(x, w)
    losses = cross_entropy(logits, answers)
    if z_loss is not None:
        losses = losses + (z_loss * logits.to(losses.dtype).logsumexp(-1).square()).to(losses.dtype)
    return losses, logits.argmax(-1) == answers


def _forward(x: Tensor, w: Tensor, answers: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """x (groups, answers, width), w (groups, vocabulary, width), answers (groups, answers)."""
    return kernels.answer_loss.forward(x, w, answers)


def _backward(
    grad: Tensor, x: Tensor, w: Tensor, answers: Tensor, losses: Tensor, lse: Tensor, right: Tensor
) -> tuple[Tensor, Tensor]:
    return kernels.answer_loss.backward(grad, x, w, answers, lse)


def _fake(x: Tensor, w: Tensor, answers: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    losses = x.new_empty(answers.shape, dtype=torch.float32)
    return losses, losses.new_empty(*losses.shape, 2), torch.empty_like(losses, dtype=torch.bool)


_fused = op("answer_loss", _forward, _backward, _fake, gradients=2)
