"""What mixers decide at each token, drawn: one panel per mixer and signal, tokens along, heads or channels up."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from recollect.figures.style import Picture, add_caption, new_figure, style

LABELLED = 48
"""Tokens that can be written under a panel."""


def signals_figure(
    signals: Mapping[str, Mapping[str, np.ndarray]],
    words: Sequence[str],
    read: Collection[int],
    *,
    title: str,
    caption: str,
) -> Picture:
    """`signals`: by mixer and name, a matrix (channels or heads, tokens). `words`: the tokens. `read`: where answers are read."""
    columns = max(len(own) for own in signals.values())
    with style():
        figure = new_figure(max(7.0, 0.5 + 3.6 * columns), 1.3 + 2.1 * len(signals))
        grid = figure.subplots(len(signals), columns, squeeze=False)
        for row, (place, own) in zip(grid, signals.items(), strict=True):
            for axes in row[len(own) :]:
                axes.set_axis_off()
            for axes, (name, matrix) in zip(row, own.items(), strict=False):
                axes.grid(False)
                axes.set_title(f"{place}: {name}", fontsize=9)
                image = axes.imshow(matrix, aspect="auto", interpolation="nearest", cmap="viridis")
                figure.colorbar(image, ax=axes)
                axes.plot(sorted(read), [-0.5] * len(read), "v", color="#D55E00", clip_on=False, markersize=4)
                if len(words) <= LABELLED:
                    axes.set_xticks(range(len(words)), words, fontsize=5, rotation=90)
                axes.set_yticks([])
                axes.set_ylabel(f"{len(matrix)} channels or heads" if len(matrix) > 1 else "one value", fontsize=8)
        for axes in grid[-1]:
            axes.set_xlabel("token", fontsize=8)
        figure.suptitle(title, fontsize=11)
        add_caption(figure, caption)
    return figure
