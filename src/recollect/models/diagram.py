"""A model on one screen: its layers as a diagram, its parameters by part, its state and its operations."""

from collections import Counter
from itertools import groupby

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from recollect.mixers.spec import MixerSpec
from recollect.models.model import Model
from recollect.models.spec import BlockSpec, ModelSpec
from recollect.tasks.base import Task


def model_card(spec: ModelSpec, task: Task, seeded: Model) -> RenderableType:
    """Diagram, parameters by part, state size and operations of a model on a task."""
    return Group(Text(diagram(spec, task)), parts_table(seeded), Text(costs(seeded, task)))


def diagram(spec: ModelSpec, task: Task) -> str:
    """The flow from tokens to logits, one box per layer (equal neighbours are drawn once)."""
    positions = "" if spec.positions == "none" else f"   positions: {spec.positions}"
    lines = [f"tokens ({task.row_length} of {task.vocabulary} ids)", "  │", f"embedding → {spec.width}{positions}"]
    for block, equal in groupby(spec.layer_blocks()):
        inner, times = _layer_lines(block, spec), len(list(equal))
        width = max(map(len, inner))
        lines += ["  │", "┌" + "─" * (width + 2) + "┐" + (f" × {times}" if times > 1 else "")]
        lines += [f"│ {line.ljust(width)} │" for line in inner] + ["└" + "─" * (width + 2) + "┘"]
    head = "embedding transposed" if spec.tie else "linear"
    if spec.head == "autoencoder":
        lines += ["  │", "decoder: + code of the answer's number, two-layer GELU network"]
    lines += ["  │", f"{spec.norm} norm", "  │   (answer positions only)", f"head: {head} → {task.vocabulary} logits"]
    return "\n".join(lines) + "\n"


def _layer_lines(block: BlockSpec, spec: ModelSpec) -> list[str]:
    lines = _block_lines(block, spec)
    if spec.second:
        gate = {"scalar": "tanh(b) · ", "vector": "tanh(b) ⊙ ", "none": ""}[spec.second.gate]
        first, second = ("", gate) if spec.second.gated == "second" else (gate, "")
        other = _block_lines(spec.second.block, spec)
        lines = [f"x' = x + {first}first(x) + {second}second(x)", "first:", *(f"  {line}" for line in lines),
                 "second:", *(f"  {line}" for line in other)]  # fmt: skip
    return lines


def _block_lines(block: BlockSpec, spec: ModelSpec) -> list[str]:
    mlp = {"gelu": "GELU MLP", "swiglu": "SwiGLU MLP", "identity": "identity", "none": ""}[block.mlp]
    if mlp and block.mlp != "identity":
        mlp += f" × {spec.mlp_ratio:g}" + (" with Canon" if "D" in block.canon else "")
    seen_by_mixer, seen_by_mlp = ("Canon(norm x)" if letter in block.canon else "norm x" for letter in "AC")
    mixer = f"+ {_mixer(block.mixer)}{' with Canon' if 'B' in block.canon else ''}({seen_by_mixer})"
    lines = [mixer, f"+ {mlp}({seen_by_mlp})"] if mlp else [mixer]
    return ["   ".join(lines)] if block.parallel else lines


def _mixer(mixer: MixerSpec) -> str:
    options = ", ".join(f"{name}={value}" for name, value in mixer.options.items())
    return mixer.kind + (f"[{options}]" if options else "")


def parts_table(model: Model) -> Table:
    """How many parameters each part has."""
    counts = Counter[str]()
    for name, p in model.named_parameters():
        counts[_part(name)] += p.numel()
    total = sum(counts.values())
    table = Table("part", title="parameters", title_justify="left")
    table.add_column("parameters", justify="right")
    table.add_column("share", justify="right")
    for part, n in counts.items():
        table.add_row(part, f"{n:,}", f"{n / total:.1%}")
    table.add_section()
    table.add_row("total", f"{total:,}", "")
    embeddings = sum(counts[part] for part in ("embedding", "positions", "head"))
    table.add_row("without embeddings and head", f"{total - embeddings:,}", "")
    return table


def _part(name: str) -> str:
    """`layers.3.mixer.qkv.weight` -> `mixers`."""
    first, *others = name.split(".")
    if first not in ("layers", "second"):
        return {"norm": "last norm"}.get(first, first)
    kind = others[1].partition("_")[0]  # the second word of norm_mixer, canon_mlp .. says what it precedes
    stream = "second stream: " if first == "second" else ""
    return stream + {"mixer": "mixers", "mlp": "MLPs", "canon": "Canon layers", "norm": "norms"}[kind]


def costs(model: Model, task: Task) -> str:
    """State and operations, where every mixer defines them."""
    length = task.row_length
    answers = task.batch(0, "show", 1).answers.shape[1]
    try:
        state = f"{model.state_size(length):,} elements per sequence after {length} tokens"
        flops = f"{model.flops(length, answers) / 1e6:,.2f} MFLOP per row forward, logits at {answers} positions"
    except (AttributeError, TypeError) as error:  # a module without the method, or a Mixer that does not define it
        what = f"{type(error.obj).__name__} has no {error.name}" if isinstance(error, AttributeError) else error
        return f"state and operations are unknown: {what}"
    return f"recurrent state: {state}\noperations:      {flops}"
