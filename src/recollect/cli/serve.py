"""Watching: serve."""

from functools import partial
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from recollect.cli.app import app, console
from recollect.cli.options import DEFAULT_STORE


@app.command()
def serve(
    stores: Annotated[
        list[Path] | None,
        Argument(metavar="STORE", envvar="RECOLLECT_STORE", help="Results files; several are compared."),
    ] = None,
    port: Annotated[int, Option(min=0, max=65535, help="0: any that is free.")] = 8050,
    host: Annotated[
        str, Option(help="The address to listen on; any but this machine's own needs --token.")
    ] = "127.0.0.1",
    token: Annotated[str, Option(envvar="RECOLLECT_TOKEN", help="A secret that a browser has to know.")] = "",
) -> None:
    """A page that follows studies while they train: views, progress, failures, time left. It only reads."""
    from recollect.serve import serve as start

    start(stores or [DEFAULT_STORE], host, port, token, say=partial(console.print, soft_wrap=True))
