"""`recollect bench`: how fast this machine trains."""

from itertools import product
from typing import Annotated

from typer import Argument, Option

from recollect.cli.app import app, console
from recollect.cli.options import DeviceOption, ToFileOption, complete_mixer, write_too
from recollect.spec import SpecError


@app.command()
def bench(
    mixers: Annotated[
        list[str] | None, Argument(help="Mixers to time; left out: attention.", autocompletion=complete_mixer)
    ] = None,
    device: DeviceOption = "auto",
    width: Annotated[int, Option(min=1)] = 64,
    length: Annotated[int, Option(min=2, help="Tokens of a row of MQAR.")] = 64,
    pairs: Annotated[int, Option(min=1)] = 4,
    batch: Annotated[int, Option(min=1)] = 512,
    vocab: Annotated[int, Option(min=4)] = 8192,
    layers: Annotated[int, Option(min=1)] = 2,
    mlp: Annotated[
        str, Option(help="What follows each mixer: gelu, swiglu, or none as in Mamba's own block.")
    ] = "gelu",
    cohort: Annotated[
        list[int] | None, Option(help="A cohort size, as often as wanted. Default: 1 4 12 36 128.")
    ] = None,
    optimiser: Annotated[
        list[str] | None, Option(help="An optimiser, as often as wanted, or all. Default: adamw.")
    ] = None,
    precision: Annotated[str, Option(help="float32 or bfloat16; auto: bfloat16 on a GPU.")] = "auto",
    compiled: Annotated[bool, Option("--compile/--no-compile", help="Compile on a GPU.")] = True,
    to: ToFileOption = None,
) -> None:
    """Milliseconds per run and step, for cohorts of several sizes beside one run at a time; memory, roofline, shares."""
    import pandas as pd
    import torch

    from recollect.bench.timing import Row, Shape, ceilings
    from recollect.bench.timing import bench as measure
    from recollect.cli.tables import bench_table
    from recollect.train.device import choose_device
    from recollect.train.optimisers import OPTIMISERS

    place = torch.device(choose_device(device))
    cuda = place.type == "cuda"
    if precision not in ("auto", "float32", "bfloat16"):
        raise SpecError(f"--precision {precision!r}: choose auto, float32 or bfloat16")
    chosen = ("bfloat16" if cuda else "float32") if precision == "auto" else precision
    names = list(OPTIMISERS) if optimiser == ["all"] else optimiser or ["adamw"]
    for name in names:
        OPTIMISERS.find(name)  # refuses an unknown one before anything is timed
    best = ceilings(place)
    console.print(
        f"{_name(place)}: a matrix product reaches {best.flops / 1e12:.3g} TFLOP/s, a copy {best.bytes / 1e9:.4g} GB/s"
    )
    rows: list[Row] = []
    for mixer, name in product(mixers or ["attention"], names):
        setting = Shape(mixer, width, length, pairs, batch, vocab, layers, mlp, chosen, name)
        with console.status(f"timing {mixer} with {name}"):
            for row in measure(setting, cohort or [1, 4, 12, 36, 128], place, best, compiled and cuda):
                rows.append(row)
                label = f"{name}, cohort of {row.members}" if row.members else "one at a time"
                console.print(f"  {row.mixer}, {label}: {row.ms:.3f} ms per run and step")
    frame = pd.DataFrame([vars(row) for row in rows])
    console.print(bench_table(frame))
    write_too(frame, to)


def _name(device) -> str:
    import platform

    import torch

    return torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
