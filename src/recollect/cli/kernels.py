"""`recollect kernels`: which kernels are installed, and whether they are right here."""

from typing import Annotated

import typer
from typer import Argument, Option

from recollect.cli.app import app, console
from recollect.cli.options import DeviceOption, ToFileOption, write_too
from recollect.spec import SpecError, nearest


@app.command()
def kernels(
    ops: Annotated[list[str] | None, Argument(help="Ops to check; left out: all.")] = None,
    device: DeviceOption = "auto",
    rows: Annotated[int, Option(min=1)] = 8,
    length: Annotated[int, Option(min=1, help="Tokens per row.")] = 256,
    heads: Annotated[int, Option(min=1)] = 2,
    dim: Annotated[int, Option(min=1, help="Channels per head.")] = 64,
    to: ToFileOption = None,
) -> None:
    """Check kernels (ours, flash-linear-attention's, mamba-ssm's) against definitions in float64, and time them.

    The exit code is 1 where a kernel that runs here is wrong or fails.
    """
    import pandas as pd
    import torch

    from recollect.bench.kernels import CASES, Size, check
    from recollect.cli.tables import kernels_table
    from recollect.train.device import choose_device

    for op in ops or []:
        if op not in CASES:
            raise SpecError(f"unknown op {op!r}: {nearest(op, CASES)}")
    place, found = torch.device(choose_device(device)), []
    console.print(_machine(place))
    for op in ops or CASES:
        with console.status(f"checking {op}"):
            found += check(op, place, Size(rows, length, heads, dim))
    frame = pd.DataFrame([vars(row) for row in found])
    console.print(kernels_table(frame))
    write_too(frame, to)
    if any(row.verdict in ("wrong", "fails") for row in found):
        raise typer.Exit(1)


def _machine(place) -> str:
    """What decides whether a kernel is right: the GPU and the versions."""
    import platform
    from importlib import metadata

    import torch

    def version(package: str) -> str:
        return next((found.version for found in metadata.distributions(name=package)), "not installed")

    if place.type == "cuda":
        major, minor = torch.cuda.get_device_capability(place)
        where = f"{torch.cuda.get_device_name(place)}, compute capability {major}.{minor}"
    else:
        where = f"{platform.machine()} without a GPU in use: kernels that need one are listed, and not tried"
    packages = {name: version(package) for name, package in
                (("Triton", "triton"), ("flash-linear-attention", "fla-core"), ("mamba-ssm", "mamba-ssm"))}  # fmt: skip
    return f"{where}\nPyTorch {torch.__version__}; " + "; ".join(f"{name} {found}" for name, found in packages.items())
