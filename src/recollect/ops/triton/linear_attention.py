"""Kernels of linear attention and of state-space duality; formulas and plain forms in ops/linear_attention.py and ops/ssd.py.

    h_t = a_t h_{t-1} + v_t k_t^T        z_t = z_{t-1} + k_t        y_t = h_t q_t, or h_t q_t / (q_t . z_t)

with q and k after their feature map. A program takes one head of one row through its chunks with h in registers. In a chunk

    A = q k^T * w        y = A v + read * (q h^T)        h' = left h + v^T (k * write)

where w_ts is the decay from s to t, read_t that from the chunk's start, write_s that to its end, left that of the whole
chunk; a divisor, which comes without decay, divides w_t and read_t. Backward goes from the last chunk to the first with
dh in registers, and finds A and the divisor again; only the states before each chunk but the first are kept:

    dA = dy v^T - m        m_t = dy_t . y_t, with a divisor only        dq = (dA * w) k + read * (dy h - m z)
    dv = A^T dy + write * (k dh^T)        dk = (dA * w)^T q + write * (v dh + dz)        dh' = left dh + dy^T (q * read)

The gradient of log a_r sums what passes r: pairs s < r <= t of A * dA, what t >= r reads, what s < r writes, and h dh.

Heads that share q and k are taken by one program where a row is one chunk, which sums their dq and dk; else PyTorch sums
them. No atomics: the same bits on every run.

Glossary: q, k, v = queries, keys, values (C, B, x of state-space duality); a = decay; h, z = the sums of values and of
features; m = mean of dy under the weights. Shapes: q, k (rows, length, heads or 1, n), v, y (rows, length, heads, p),
log_a (rows, length, heads), kept (rows, heads, chunks - 1, p and one more for z, n).
"""

# pyright: reportCallIssue=false, reportOperatorIssue=false, reportGeneralTypeIssues=false, reportArgumentType=false
# pyright: reportIndexIssue=false, reportAttributeAccessIssue=false, reportOptionalOperand=false
# (Triton's language looks like Python, but its types are its own.)

import torch
import triton
import triton.language as tl
from torch import Tensor

from recollect.ops.linear_attention import EPSILON

NEAREST = tl.constexpr(EPSILON)
FORGOTTEN = tl.constexpr(-128.0)  # the least logarithm of a decay: its exponential is zero


def forward(
    q: Tensor, k: Tensor, v: Tensor, log_a: Tensor | None, feature: str, normalise: bool
) -> tuple[Tensor, Tensor]:
    """y, and the states before each chunk but the first."""
    q, k, v = (_rows_of_vectors(x) for x in (q, k, v))
    y, kept = outputs(q, v, normalise)
    arguments, options = _arguments(q, k, v, log_a, feature, normalise)
    with torch.cuda.device_of(v):
        _forward_kernel[_grid(v, options)](y, kept, *arguments, **options)
    return y, kept


def backward(
    grad: Tensor, q: Tensor, k: Tensor, v: Tensor, log_a: Tensor | None, kept: Tensor, feature: str, normalise: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of q, k, v and log_a; the last is empty where there is no decay."""
    q, k, v = (_rows_of_vectors(x) for x in (q, k, v))
    arguments, options = _arguments(q, k, v, log_a, feature, normalise)
    heads = v.shape[2] // options["EACH"]
    dq, dk = (x.new_empty(*x.shape[:2], heads, x.shape[3]) for x in (q, k))
    dv = v.new_empty(v.shape)
    dlog_a = v.new_empty(v.shape[:3] if options["DECAY"] else 0, dtype=torch.float32)
    with torch.cuda.device_of(v):
        _backward_kernel[_grid(v, options)](
            grad.contiguous(), kept.contiguous(), dq, dk, dv, dlog_a, *arguments, **options
        )  # fmt: skip
    if heads > q.shape[2]:
        dq, dk = dq.sum(2, keepdim=True), dk.sum(2, keepdim=True)
    return dq, dk, dv, dlog_a


def outputs(q: Tensor, v: Tensor, normalise: bool) -> tuple[Tensor, Tensor]:
    """Room for y and for the states that are kept, in the type of the products' operands: bfloat16, or else float32."""
    rows, length, heads, p = v.shape
    states = -(-length // _chunk(length)) - 1
    dtype = v.dtype if v.dtype == torch.bfloat16 else torch.float32
    return v.new_empty(v.shape), v.new_empty(rows, heads, states, p + normalise, q.shape[3], dtype=dtype)


def _chunk(length: int) -> int:
    return min(max(triton.next_power_of_2(length), 16), 64)


def _rows_of_vectors(x: Tensor) -> Tensor:
    return x if x.stride(-1) == 1 else x.contiguous()


def _grid(v: Tensor, options: dict) -> tuple[int]:
    return (v.shape[0] * v.shape[2] // options["EACH"],)


def _arguments(
    q: Tensor, k: Tensor, v: Tensor, log_a: Tensor | None, feature: str, normalise: bool
) -> tuple[list, dict]:
    """What both kernels take: tensors, strides and sizes; and the choices that are compiled in."""
    _, length, heads, p = v.shape
    n, shared = q.shape[3], q.shape[2] == 1
    strides = [*q.stride()[:3], *k.stride()[:3], *v.stride()[:3]]
    if shared:
        strides[2] = strides[5] = 0  # every head finds the same q and k
    log_a = v if log_a is None else log_a.contiguous()  # v stands for what is not read
    single = length <= _chunk(length)
    N, P = (max(triton.next_power_of_2(size), 16) for size in (n, p))
    each = heads if shared and single else 1
    return [q, k, v, log_a, *strides, length, heads, n, p], {
        "CHUNK": _chunk(length), "N": N, "P": P, "EACH": each, "SINGLE": single, "DECAY": log_a is not v,
        "FEATURE": feature, "NORMALISE": normalise, "EXACT": "ieee" if v.dtype == torch.float32 else "tf32",
        "num_warps": 4 if max(N, P) <= 64 else 8, "num_stages": 1,
    }  # fmt: skip


@triton.jit
def _load(x, t, stride, length, dim, DIM: tl.constexpr, dtype: tl.constexpr):
    """Tokens t of one head: (len(t), DIM), zeros outside."""
    d = tl.arange(0, DIM)
    mask = (t < length)[:, None] & (d < dim)[None, :]
    return tl.load(x + t[:, None] * stride + d[None, :], mask=mask, other=0.0).to(dtype)


@triton.jit
def _store(x, value, t, stride, length, dim, DIM: tl.constexpr):
    d = tl.arange(0, DIM)
    mask = (t < length)[:, None] & (d < dim)[None, :]
    tl.store(x + t[:, None] * stride + d[None, :], value.to(x.dtype.element_ty), mask=mask)


@triton.jit
def _features(x, t, length, dim, DIM: tl.constexpr, FEATURE: tl.constexpr):
    """phi(x), and zeros where x is outside."""
    if FEATURE == "elu":
        wide = x.to(tl.float32)
        phi = tl.exp(tl.where(wide > 0, 0.0, wide)) + tl.where(wide < 0, 0.0, wide)
        inside = (t < length)[:, None] & (tl.arange(0, DIM) < dim)[None, :]
        return tl.where(inside, phi, 0.0).to(x.dtype)
    elif FEATURE == "relu":
        return tl.where(x < 0, 0.0, x).to(x.dtype)
    else:
        return x


@triton.jit
def _to_input(dphi, phi, FEATURE: tl.constexpr):
    """The gradient of x from that of phi(x), whose slope its value tells."""
    if FEATURE == "elu":
        return dphi * tl.minimum(phi.to(tl.float32), 1.0)
    elif FEATURE == "relu":
        return tl.where(phi > 0, dphi, 0.0)
    else:
        return dphi


@triton.jit
def _weigh(
    q, k, z, log_a, t, heads, length,
    CHUNK: tl.constexpr, SINGLE: tl.constexpr, DECAY: tl.constexpr, NORMALISE: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """A, w (not divided), read, write and left."""
    i = tl.arange(0, CHUNK)
    seen = i[None, :] <= i[:, None]
    if DECAY:
        log = tl.load(log_a + t * heads, mask=t < length, other=0.0)
        log = tl.where(log < FORGOTTEN, FORGOTTEN, log).to(tl.float64)
        running, whole = tl.cumsum(log, 0), tl.sum(log, 0)
        # In two floats, so that the difference of two sums keeps small decays behind a large one.
        high = running.to(tl.float32)
        low = (running - high.to(tl.float64)).to(tl.float32)
        between = (high[:, None] - high[None, :]) + (low[:, None] - low[None, :])
        w = tl.exp(tl.where(seen, between, -float("inf")))
        read, write = tl.exp(high), tl.exp((whole - running).to(tl.float32))
        left = tl.exp(whole.to(tl.float32))
    else:
        w = tl.where(seen, 1.0, 0.0)
        read, write = tl.full([CHUNK], 1.0, tl.float32), tl.full([CHUNK], 1.0, tl.float32)
        left = 1.0
    A = tl.dot(q, tl.trans(k), input_precision=EXACT) * w
    if NORMALISE:
        divisor = tl.sum(A, 1)
        if not SINGLE:
            divisor += tl.sum(q.to(tl.float32) * z[None, :], 1)
        inverse = 1 / (divisor + tl.where(divisor < 0, -NEAREST, NEAREST))
        A *= inverse[:, None]
        read *= inverse
    return A, w, read, write, left


@triton.jit
def _forward_kernel(
    y, kept, q, k, v, log_a, q_row, q_time, q_head, k_row, k_time, k_head, v_row, v_time, v_head, length, heads, n, p,
    CHUNK: tl.constexpr, N: tl.constexpr, P: tl.constexpr, EACH: tl.constexpr, SINGLE: tl.constexpr,
    DECAY: tl.constexpr, FEATURE: tl.constexpr, NORMALISE: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    parts = heads // EACH
    row, first = (tl.program_id(0) // parts).to(tl.int64), tl.program_id(0) % parts * EACH
    chunks = tl.cdiv(length, CHUNK)
    dtype: tl.constexpr = kept.dtype.element_ty
    d, c = tl.arange(0, P), tl.arange(0, N)
    for head in range(first, first + EACH):
        h = tl.zeros([P, N], tl.float32)
        z = tl.zeros([N], tl.float32)
        for chunk in range(1 if SINGLE else chunks):
            t = chunk * CHUNK + tl.arange(0, CHUNK)
            q_t = _load(q + row * q_row + head * q_head, t, q_time, length, n, N, dtype)
            k_t = _load(k + row * k_row + head * k_head, t, k_time, length, n, N, dtype)
            v_t = _load(v + row * v_row + head * v_head, t, v_time, length, p, P, dtype)
            q_t, k_t = _features(q_t, t, length, n, N, FEATURE), _features(k_t, t, length, n, N, FEATURE)
            first_log = log_a + row * length * heads + head
            A, _, read, write, left = _weigh(
                q_t, k_t, z, first_log, t, heads, length, CHUNK, SINGLE, DECAY, NORMALISE, EXACT
            )
            if SINGLE:
                y_t = tl.dot(A.to(dtype), v_t, input_precision=EXACT)
            else:
                y_t = read[:, None] * tl.dot(q_t, tl.trans(h.to(dtype)), input_precision=EXACT)
                y_t = tl.dot(A.to(dtype), v_t, acc=y_t, input_precision=EXACT)
                before = kept + ((row * heads + head) * (chunks - 1) + chunk - 1) * (p + NORMALISE) * n + c
                is_kept = c < tl.where(chunk > 0, n, 0)
                tl.store(before[None, :] + d[:, None] * n, h.to(dtype), mask=is_kept[None, :] & (d < p)[:, None])
                written = k_t.to(tl.float32) * write[:, None]
                h = tl.dot(tl.trans(v_t), written.to(dtype), acc=left * h, input_precision=EXACT)
                if NORMALISE:
                    tl.store(before + p * n, z.to(dtype), mask=is_kept)
                    z += tl.sum(written, 0)
            _store(y + (row * length * heads + head) * p, y_t, t, heads * p, length, p, P)


@triton.jit
def _backward_kernel(
    grad, kept, dq, dk, dv, dlog_a,
    q, k, v, log_a, q_row, q_time, q_head, k_row, k_time, k_head, v_row, v_time, v_head, length, heads, n, p,
    CHUNK: tl.constexpr, N: tl.constexpr, P: tl.constexpr, EACH: tl.constexpr, SINGLE: tl.constexpr,
    DECAY: tl.constexpr, FEATURE: tl.constexpr, NORMALISE: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    parts = heads // EACH
    row, part = (tl.program_id(0) // parts).to(tl.int64), tl.program_id(0) % parts
    chunks = tl.cdiv(length, CHUNK)
    dtype: tl.constexpr = kept.dtype.element_ty
    i, d, c = tl.arange(0, CHUNK), tl.arange(0, P), tl.arange(0, N)
    earlier = i[None, :] < i[:, None]
    dq += (row * length * parts + part) * n
    dk += (row * length * parts + part) * n
    sum_q = tl.zeros([CHUNK, N], tl.float32)  # over the heads of this program
    sum_k = tl.zeros([CHUNK, N], tl.float32)
    for head in range(part * EACH, part * EACH + EACH):
        dh = tl.zeros([P, N], tl.float32)
        h = dh.to(dtype)
        z = tl.zeros([N], tl.float32)
        dz = tl.zeros([N], tl.float32)
        for later in range(1 if SINGLE else chunks):
            chunk = 0 if SINGLE else chunks - 1 - later
            t = chunk * CHUNK + i
            q_t = _load(q + row * q_row + head * q_head, t, q_time, length, n, N, dtype)
            k_t = _load(k + row * k_row + head * k_head, t, k_time, length, n, N, dtype)
            v_t = _load(v + row * v_row + head * v_head, t, v_time, length, p, P, dtype)
            dy = _load(grad + (row * length * heads + head) * p, t, heads * p, length, p, P, dtype)
            q_t, k_t = _features(q_t, t, length, n, N, FEATURE), _features(k_t, t, length, n, N, FEATURE)
            if not SINGLE:
                before = kept + ((row * heads + head) * (chunks - 1) + chunk - 1) * (p + NORMALISE) * n + c
                is_kept = c < tl.where(chunk > 0, n, 0)
                h = tl.load(before[None, :] + d[:, None] * n, mask=is_kept[None, :] & (d < p)[:, None], other=0.0)
                if NORMALISE:
                    z = tl.load(before + p * n, mask=is_kept, other=0.0).to(tl.float32)
            first_log = log_a + row * length * heads + head
            A, w, read, write, left = _weigh(
                q_t, k_t, z, first_log, t, heads, length, CHUNK, SINGLE, DECAY, NORMALISE, EXACT
            )
            dv_t = tl.dot(tl.trans(A.to(dtype)), dy, input_precision=EXACT)
            if not SINGLE:
                written = (k_t.to(tl.float32) * write[:, None]).to(dtype)
                dv_t = tl.dot(written, tl.trans(dh.to(dtype)), acc=dv_t, input_precision=EXACT)
            _store(dv + (row * length * heads + head) * p, dv_t, t, heads * p, length, p, P)
            dA = tl.dot(dy, tl.trans(v_t), input_precision=EXACT)
            if NORMALISE:
                m = tl.sum(A * dA, 1)
            if not SINGLE:
                reading = read[:, None] * tl.dot(dy, h, input_precision=EXACT)
                if NORMALISE:
                    m += tl.sum(q_t.to(tl.float32) * reading, 1)
                    reading -= (m * read)[:, None] * z[None, :]
            if NORMALISE:
                dA -= m[:, None]
            if DECAY:
                pairs = tl.where(earlier, A * dA, 0.0)
                passed = tl.sum(pairs, 1) - tl.sum(pairs, 0)
                if not SINGLE:
                    passed += tl.sum(q_t.to(tl.float32) * reading, 1)
                dlog = tl.cumsum(passed, 0, reverse=True)
                dA *= w
            else:
                dA = tl.where(i[None, :] <= i[:, None], dA * read[:, None], 0.0)
            dA = dA.to(dtype)
            if SINGLE:
                sum_q += _to_input(tl.dot(dA, k_t, input_precision=EXACT), q_t, FEATURE)
                sum_k += _to_input(tl.dot(tl.trans(dA), q_t, input_precision=EXACT), k_t, FEATURE)
            else:
                dq_t = tl.dot(dA, k_t, acc=reading, input_precision=EXACT)
                _store(dq, _to_input(dq_t, q_t, FEATURE), t, parts * n, length, n, N)
                writing = tl.dot(v_t, dh.to(dtype), input_precision=EXACT)
                if NORMALISE:
                    writing += dz[None, :]
                    dz -= tl.sum(q_t.to(tl.float32) * (m * read)[:, None], 0)
                writing *= write[:, None]
                if DECAY:
                    sent = tl.sum(k_t.to(tl.float32) * writing, 1).to(tl.float64)
                    dlog += (tl.cumsum(sent, 0) - sent).to(tl.float32)  # of s < r, however much r itself sends
                    dlog += left * tl.sum(h.to(tl.float32) * dh)
                dk_t = tl.dot(tl.trans(dA), q_t, acc=writing, input_precision=EXACT)
                _store(dk, _to_input(dk_t, k_t, FEATURE), t, parts * n, length, n, N)
                past = (q_t.to(tl.float32) * read[:, None]).to(dtype)
                dh = tl.dot(tl.trans(dy), past, acc=left * dh, input_precision=EXACT)
            if DECAY:
                tl.store(dlog_a + (row * length + t) * heads + head, dlog, mask=t < length)
    if SINGLE:
        _store(dq, sum_q, i, parts * n, length, n, N)
        _store(dk, sum_k, i, parts * n, length, n, N)
