"""Kernels of the head and its cross-entropy; formula and plain form in ops/answer_loss.py.

Logits exist only as tiles in registers: forward walks the vocabulary once and keeps each answer's log-sum-exp, and whether no
logit is higher than its own; backward forms each tile again, once for dx (a program walks the vocabulary) and once for dw (a
program walks the answers). No atomics: the same bits on every run. The weights may be longer numbers than the rows: they are
rounded for the products, their gradients are not.

Shapes: x (groups, answers, width), w (groups, vocabulary, width), answers, losses, lse, right (groups, answers).
"""

# pyright: reportCallIssue=false, reportOperatorIssue=false, reportGeneralTypeIssues=false, reportArgumentType=false
# (Triton's language looks like Python, but its types are its own.)

import torch
import triton
import triton.language as tl
from torch import Tensor


def forward(x: Tensor, w: Tensor, answers: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """losses, lse and right."""
    x, w, answers = x.contiguous(), w.to(x.dtype).contiguous(), answers.contiguous()
    groups, count, width = x.shape
    losses, lse = (x.new_empty(groups, count, dtype=torch.float32) for _ in range(2))
    right = torch.empty_like(answers, dtype=torch.bool)
    options = _options(x)
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
    options = _options(x)
    sizes = (count, vocabulary, width)
    with torch.cuda.device_of(x):
        _dx_kernel[groups, triton.cdiv(count, options["ROWS"])](grad, x, w, answers, lse, dx, *sizes, **options)
        _dw_kernel[groups, triton.cdiv(vocabulary, options["TOKENS"])](grad, x, w, answers, lse, dw, *sizes, **options)
    return dx, dw


def _options(x: Tensor) -> dict:
    wide = max(triton.next_power_of_2(x.shape[2]), 16)
    exact = "ieee" if x.dtype == torch.float32 else "tf32"  # the latter is not looked at for shorter numbers
    rows = min(max(triton.next_power_of_2(x.shape[1]), 16), 64)
    return {"ROWS": rows, "TOKENS": 64, "WIDTH": wide, "EXACT": exact, "num_warps": 4 if wide <= 128 else 8}


@triton.jit
def _tile(x, i, count, width, WIDTH: tl.constexpr):
    """Rows i of a matrix: (len(i), WIDTH), zeros outside."""
    d = tl.arange(0, WIDTH)
    return tl.load(x + i[:, None] * width + d[None, :], mask=(i < count)[:, None] & (d < width)[None, :], other=0.0)


@triton.jit
def _put(x, value, i, count, width, WIDTH: tl.constexpr):
    d = tl.arange(0, WIDTH)
    inside = (i < count)[:, None] & (d < width)[None, :]
    tl.store(x + i[:, None] * width + d[None, :], value.to(x.dtype.element_ty), mask=inside)


@triton.jit
def _forward_kernel(
    x, w, answers, losses, lse, right, count, vocabulary, width,
    ROWS: tl.constexpr, TOKENS: tl.constexpr, WIDTH: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    group = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    x_i = _tile(x + group * count * width, i, count, width, WIDTH)
    w += group * vocabulary * width
    answer = tl.load(answers + group * count + i, mask=i < count, other=-1)
    highest = tl.full([ROWS], -1e30, tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    own = tl.zeros([ROWS], tl.float32)
    for start in range(0, vocabulary, TOKENS):
        j = start + tl.arange(0, TOKENS)
        w_j = _tile(w, j, vocabulary, width, WIDTH)
        logits = tl.dot(x_i, tl.trans(w_j), input_precision=EXACT)
        logits = tl.where((j < vocabulary)[None, :], logits, -1e30)
        higher = tl.maximum(highest, tl.max(logits, 1))
        total = total * tl.exp(highest - higher) + tl.sum(tl.exp(logits - higher[:, None]), 1)
        highest = higher
        own += tl.sum(tl.where(j[None, :] == answer[:, None], logits, 0.0), 1)
    log_total = highest + tl.log(total)
    here = group * count + i
    tl.store(lse + here, log_total, mask=i < count)
    tl.store(losses + here, log_total - own, mask=i < count)
    tl.store(right + here, own >= highest, mask=i < count)


@triton.jit
def _slopes(x_i, w_j, i, j, answer, lse_i, grad_i, count, vocabulary, EXACT: tl.constexpr):
    """The gradient of a tile of logits: (softmax - 1 at the answer) times that of the loss."""
    logits = tl.dot(x_i, tl.trans(w_j), input_precision=EXACT)
    inside = (i < count)[:, None] & (j < vocabulary)[None, :]
    share = tl.where(inside, tl.exp(tl.where(inside, logits - lse_i[:, None], 0.0)), 0.0)
    return (share - tl.where(j[None, :] == answer[:, None], 1.0, 0.0)) * grad_i[:, None]


@triton.jit
def _dx_kernel(
    grad, x, w, answers, lse, dx, count, vocabulary, width,
    ROWS: tl.constexpr, TOKENS: tl.constexpr, WIDTH: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    group = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    here = group * count + i
    x_i = _tile(x + group * count * width, i, count, width, WIDTH)
    answer = tl.load(answers + here, mask=i < count, other=-1)
    lse_i = tl.load(lse + here, mask=i < count, other=0.0)
    grad_i = tl.load(grad + here, mask=i < count, other=0.0)
    w += group * vocabulary * width
    sums = tl.zeros([ROWS, WIDTH], tl.float32)
    for start in range(0, vocabulary, TOKENS):
        j = start + tl.arange(0, TOKENS)
        w_j = _tile(w, j, vocabulary, width, WIDTH)
        slopes = _slopes(x_i, w_j, i, j, answer, lse_i, grad_i, count, vocabulary, EXACT)
        sums += tl.dot(slopes.to(x_i.dtype), w_j, input_precision=EXACT)
    _put(dx + group * count * width, sums, i, count, width, WIDTH)


@triton.jit
def _dw_kernel(
    grad, x, w, answers, lse, dw, count, vocabulary, width,
    ROWS: tl.constexpr, TOKENS: tl.constexpr, WIDTH: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    group = tl.program_id(0).to(tl.int64)
    j = tl.program_id(1) * TOKENS + tl.arange(0, TOKENS)
    x += group * count * width
    w_j = _tile(w + group * vocabulary * width, j, vocabulary, width, WIDTH)
    sums = tl.zeros([TOKENS, WIDTH], tl.float32)
    for start in range(0, count, ROWS):
        i = start + tl.arange(0, ROWS)
        here = group * count + i
        x_i = _tile(x, i, count, width, WIDTH)
        answer = tl.load(answers + here, mask=i < count, other=-1)
        lse_i = tl.load(lse + here, mask=i < count, other=0.0)
        grad_i = tl.load(grad + here, mask=i < count, other=0.0)
        slopes = _slopes(x_i, w_j, i, j, answer, lse_i, grad_i, count, vocabulary, EXACT)
        sums += tl.dot(tl.trans(slopes).to(x_i.dtype), x_i, input_precision=EXACT)
    _put(dw + group * vocabulary * width, sums, j, vocabulary, width, WIDTH)
