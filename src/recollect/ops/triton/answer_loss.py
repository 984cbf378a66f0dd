"""Kernels of the head and its cross-entropy; formula and plain form in ops/answer_loss.py.

Logits exist only as tiles in registers: forward walks the vocabulary once and keeps each answer's log-sum-exp, and whether no
logit is higher than its own; backward forms each tile again, once for dx (a program walks the vocabulary) and once for dw (a
program walks the answers). No atomics: the same bits on every run. Weights may be in float32, rows in 16 bits: weights are
rounded for the products, their gradients are not. Exponentials are taken as powers of two, which are quicker.

The log-sum-exp is kept as two numbers, the highest logit and what the others add to it. Their sum would be too coarse: the
gradient of a nearly certain answer would be noise, which AdamW turns into steps once everything has been learned.

Glossary: highest = the highest logit; above = log2 of the sum of the powers exp(logit - highest). Shapes: x (groups, answers,
width), w (groups, vocabulary, width), answers, losses, right (groups, answers), lse (groups, answers, 2).
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from recollect.ops.triton.activations import LOG2E
from recollect.ops.triton.tiles import load, store

TOKENS = 64
"""Words of a tile."""


def forward(x: Tensor, w: Tensor, answers: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Losses, log-sum-exps, and which answers are right."""
    x, w, answers = x.contiguous(), w.to(x.dtype).contiguous(), answers.contiguous()
    groups, count, width = x.shape
    losses, lse = (x.new_empty(shape, dtype=torch.float32) for shape in ((groups, count), (groups, count, 2)))
    right = torch.empty_like(answers, dtype=torch.bool)
    options = _options(x, w)
    grid = (groups, triton.cdiv(count, options["ROWS"]))
    with torch.cuda.device_of(x):
        _forward_kernel[grid](x, w, answers, losses, lse, right, count, w.shape[1], width, **options)
    return losses, lse, right


def backward(grad: Tensor, x: Tensor, w: Tensor, answers: Tensor, lse: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of x and w."""
    dw = w.new_empty(w.shape)
    x, w, answers = x.contiguous(), w.to(x.dtype).contiguous(), answers.contiguous()
    groups, count, width = x.shape
    vocabulary = w.shape[1]
    dx = torch.empty_like(x)
    options = _options(x, w)
    sizes = (count, vocabulary, width)
    with torch.cuda.device_of(x):
        _dx_kernel[groups, triton.cdiv(count, options["ROWS"])](grad, x, w, answers, lse, dx, *sizes, **options)
        _dw_kernel[groups, triton.cdiv(vocabulary, options["TOKENS"])](grad, x, w, answers, lse, dw, *sizes, **options)
    return dx, dw


def _options(x: Tensor, w: Tensor) -> dict:
    width = x.shape[2]
    wide = max(triton.next_power_of_2(width), 16)
    rows = min(max(triton.next_power_of_2(x.shape[1]), 16), 64)
    return {
        "ROWS": rows, "TOKENS": TOKENS, "WIDTH": wide, "num_warps": 4 if wide <= 128 else 8,
        "EVEN": x.shape[1] % rows == 0 and w.shape[1] % TOKENS == 0 and width == wide,  # then no tile needs a mask
        "EXACT": "ieee" if x.dtype == torch.float32 else "tf32",  # the latter has no effect in 16-bit precision
    }  # fmt: skip


@triton.jit
def _forward_kernel(
    x, w, answers, losses, lse, right, count, vocabulary, width,
    ROWS: tl.constexpr, TOKENS: tl.constexpr, WIDTH: tl.constexpr, EVEN: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    group = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    x_i = load(x + group * count * width, i, width, count, width, WIDTH, EVEN)
    w += group * vocabulary * width
    answer = tl.load(answers + group * count + i, mask=i < count, other=-1).to(tl.int32)
    highest = tl.full([ROWS], -1e30, tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    own = tl.zeros([ROWS], tl.float32)
    for start in range(0, vocabulary, TOKENS):
        j = start + tl.arange(0, TOKENS)
        w_j = load(w, j, width, vocabulary, width, WIDTH, EVEN)
        logits = tl.dot(x_i, tl.trans(w_j), input_precision=EXACT)
        if not EVEN:
            logits = tl.where((j < vocabulary)[None, :], logits, -1e30)
        higher = tl.maximum(highest, tl.max(logits, 1))
        powers = tl.exp2((logits - higher[:, None]) * LOG2E)
        total = total * tl.exp2((highest - higher) * LOG2E) + tl.sum(powers, 1)
        highest = higher
        own += tl.sum(tl.where(j[None, :] == answer[:, None], logits, 0.0), 1)
    above = tl.log2(total)
    here = group * count + i
    tl.store(lse + 2 * here, highest, mask=i < count)
    tl.store(lse + 2 * here + 1, above, mask=i < count)
    tl.store(losses + here, (highest - own) + above / LOG2E, mask=i < count)
    tl.store(right + here, own >= highest, mask=i < count)


@triton.jit
def _rows(grad, answers, lse, here, inside):
    """The answer, highest, above and gradient of the loss of some rows; zero gradients outside."""
    answer = tl.load(answers + here, mask=inside, other=-1).to(tl.int32)
    highest = tl.load(lse + 2 * here, mask=inside, other=0.0)
    above = tl.load(lse + 2 * here + 1, mask=inside, other=0.0)
    return answer, highest, above, tl.load(grad + here, mask=inside, other=0.0)


@triton.jit
def _slopes(x_i, w_j, j, answer, highest, above, grad_i, vocabulary, EVEN: tl.constexpr, EXACT: tl.constexpr):
    """Gradients of the logits, rows by words."""
    logits = tl.dot(x_i, tl.trans(w_j), input_precision=EXACT)
    share = tl.exp2((logits - highest[:, None]) * LOG2E - above[:, None])
    if not EVEN:
        share = tl.where((j < vocabulary)[None, :], share, 0.0)
    return (tl.where(j[None, :] == answer[:, None], share - 1, share) * grad_i[:, None]).to(x_i.dtype)


@triton.jit
def _dx_kernel(
    grad, x, w, answers, lse, dx, count, vocabulary, width,
    ROWS: tl.constexpr, TOKENS: tl.constexpr, WIDTH: tl.constexpr, EVEN: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    group = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    x_i = load(x + group * count * width, i, width, count, width, WIDTH, EVEN)
    answer, highest, above, grad_i = _rows(grad, answers, lse, group * count + i, i < count)
    w += group * vocabulary * width
    sums = tl.zeros([ROWS, WIDTH], tl.float32)
    for start in range(0, vocabulary, TOKENS):
        j = start + tl.arange(0, TOKENS)
        w_j = load(w, j, width, vocabulary, width, WIDTH, EVEN)
        slopes = _slopes(x_i, w_j, j, answer, highest, above, grad_i, vocabulary, EVEN, EXACT)
        sums = tl.dot(slopes, w_j, acc=sums, input_precision=EXACT)
    store(dx + group * count * width, sums, i, width, count, width, WIDTH, EVEN)


@triton.jit
def _dw_kernel(
    grad, x, w, answers, lse, dw, count, vocabulary, width,
    ROWS: tl.constexpr, TOKENS: tl.constexpr, WIDTH: tl.constexpr, EVEN: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    group = tl.program_id(0).to(tl.int64)
    j = tl.program_id(1) * TOKENS + tl.arange(0, TOKENS)
    x += group * count * width
    w_j = load(w + group * vocabulary * width, j, width, vocabulary, width, WIDTH, EVEN)
    sums = tl.zeros([TOKENS, WIDTH], tl.float32)
    for start in range(0, count, ROWS):
        i = start + tl.arange(0, ROWS)
        x_i = load(x, i, width, count, width, WIDTH, EVEN)
        answer, highest, above, grad_i = _rows(grad, answers, lse, group * count + i, i < count)
        slopes = _slopes(x_i, w_j, j, answer, highest, above, grad_i, vocabulary, EVEN, EXACT)
        sums = tl.dot(tl.trans(slopes), x_i, acc=sums, input_precision=EXACT)
    store(dw + group * vocabulary * width, sums, j, width, vocabulary, width, WIDTH, EVEN)
