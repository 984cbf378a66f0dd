"""`recollect import`: configuration files of other projects as study files."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from recollect.cli.app import console, group
from recollect.spec import SpecError
from recollect.spec.output import output_errors, written_whole

import_app = group("import", "Make a study file of a configuration file of another project.")


@import_app.command("zoology")
def zoology(
    config: Annotated[Path, Argument(metavar="CONFIG.py", help="A file that makes Zoology's list `configs`.")],
    out: Annotated[Path, Option("-o", "--out", help="The study file to write.")] = Path("study.yaml"),
    trust: Annotated[
        bool, Option("--trust", help="Execute the file, with Zoology installed, where reading it is not enough.")
    ] = False,
) -> None:
    """A configuration file of Zoology as a study file. The file is read, not executed."""
    from recollect.importing.zoology import ALWAYS, import_zoology

    if out.exists():
        raise SpecError(f"{out} is there already; name another with -o")
    found = import_zoology(config, trust)
    with output_errors(out):
        out.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(out) as draft:
        draft.write_text(found.text)
    left = sum(found.left_out.values())
    console.print(f"{out}: {found.runs - left} of {found.runs} runs of {config}", soft_wrap=True)
    for path, fates in found.fates.lines.items():
        console.print(f"  {path}: {'; '.join(fates)}", soft_wrap=True)
    for reason, runs in found.left_out.items():
        console.print(f"left out, {runs} runs: {reason}", style="yellow", soft_wrap=True)
    for line in found.fates.not_mapped:
        console.print(line, style="yellow", soft_wrap=True)
    for line in ALWAYS:
        console.print(f"differs always: {line}", soft_wrap=True)
