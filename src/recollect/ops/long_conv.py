"""Long causal convolution along the sequence, one filter per channel (H3: Fu et al. 2023; Hyena: Poli et al. 2023).

    y_t = sum_{j <= t} h_j x_{t-j}        (h_j = 0 beyond the filter's end)

Shapes: x (batch, length, channels), filter h (channels, taps); taps beyond the length are not seen.

The fast form multiplies Fourier transforms of rows padded with zeros to twice their length. It is causal up to
rounding: changing x_t moves earlier outputs by noise of about the precision times |x_t| |h| (1e-7 of it in
float32). Products of transforms are in real arithmetic on the CPU: PyTorch's complex product rounds the last few
elements of a tensor differently from the others, and a member's bits would depend on the other members.

On a GPU short rows are multiplied by the matrix of shifted filters instead: more arithmetic, but matrix products, which GPUs do
fast.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from recollect.ops.op import op
from recollect.ops.precision import wide

SHORT = 512
"""The longest row that a GPU multiplies by a matrix."""


def long_conv_definition(x: Tensor, filter: Tensor) -> Tensor:
    """The sum by the formula, one output after another."""
    out = []
    for t in range(x.shape[1]):
        seen = min(t + 1, filter.shape[1])
        past = x[:, t - seen + 1 : t + 1].flip(1)  # x_t, x_{t-1}, ...: (batch, seen, channels)
        out.append((past * filter[:, :seen].T).sum(1))
    return torch.stack(out, dim=1)


def long_conv(x: Tensor, filter: Tensor) -> Tensor:
    """The same through Fourier transforms, in float32 at least, or by matrix products: (batch, length, channels)."""
    length = x.shape[1]
    filter = F.pad(filter[:, :length], (0, max(0, length - filter.shape[1])))
    if x.is_cuda and length <= SHORT:
        return by_products(x, filter)
    return _convolve(x, filter.T[None])[0]


def by_products(x: Tensor, filter: Tensor) -> Tensor:
    """y^T = x^T H per channel, with H_st = h_{t-s}: x (batch, length, channels), filter (channels, length)."""
    length = filter.shape[1]
    # Rows of 2 length numbers (a filter, then zeros) read as rows of 2 length - 1: each begins one place further left.
    rows = F.pad(filter, (0, length))[:, None].expand(-1, length, -1).flatten(1)[:, : length * (2 * length - 1)]
    shifted = rows.unflatten(1, (length, -1))[..., :length]  # (channels, length, length)
    return (x.permute(2, 0, 1) @ shifted).permute(1, 2, 0)


def long_conv_flops(length: int, channels: int) -> int:
    """Floating-point operations for one sequence: three real transforms of 2.5 n log2 n, and a product of spectra."""
    n = _padded(length)
    return channels * (3 * 5 * n * (n.bit_length() - 1) // 2 + 6 * (n // 2 + 1))


def _forward(x: Tensor, h: Tensor) -> tuple[Tensor]:
    """x (groups * batch, length, channels), h (groups, length, channels) -> y like x."""
    return (_inverse(_product(_spectra(x, h), _spectra(h, h)), x),)


def _backward(grad: Tensor, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
    grad_f = _spectra(grad, h)
    grad_x = _inverse(_product(grad_f, _spectra(h, h), conjugate=True), x)
    grad_h = _inverse(_product(grad_f, _spectra(x, h), conjugate=True).sum(1, keepdim=True), h)
    return grad_x, grad_h


def _spectra(x: Tensor, h: Tensor) -> Tensor:
    """(groups * rows, length, channels) -> (groups, rows, channels, frequencies)."""
    x = x.to(wide(x.dtype)).transpose(1, 2)
    return torch.fft.rfft(x.unflatten(0, (h.shape[0], -1)), n=_padded(x.shape[2]))


def _inverse(spectra: Tensor, like: Tensor) -> Tensor:
    """(groups, rows, channels, frequencies) -> (groups * rows, length, channels)."""
    length = like.shape[1]
    x = torch.fft.irfft(spectra, n=_padded(length))[..., :length]
    return x.flatten(0, 1).transpose(1, 2).to(like.dtype).contiguous()


def _padded(length: int) -> int:
    """A power of two that holds a row and as many zeros."""
    return 2 ** (2 * length - 1).bit_length()


def _product(a: Tensor, b: Tensor, conjugate: bool = False) -> Tensor:
    """a b, or a times the conjugate of b."""
    if a.is_cuda:
        return a * (b.conj() if conjugate else b)
    imaginary = -b.imag if conjugate else b.imag
    return torch.complex(a.real * b.real - a.imag * imaginary, a.real * imaginary + a.imag * b.real)


_convolve = op("long_conv", _forward, _backward, fake=lambda x, h: (torch.empty_like(x),))
