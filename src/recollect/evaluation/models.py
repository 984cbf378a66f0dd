"""Finished models with one interface: tokens and positions in, the likeliest next token at each position out."""

import importlib
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from recollect.spec import SpecError, nearest
from recollect.store.export import load, specification
from recollect.train.device import choose_device

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_TOKENIZERS = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.json")
"""A folder with a tokenizer has at least one of these files."""
_DOWNLOADED = ("*.json", "*.safetensors", "*.txt", "tokenizer.model")
"""Files that are downloaded: no code, and no weights in a format that can hold code."""


class LanguageModel(ABC):
    """A trained causal language model."""

    name: str
    device: torch.device
    usable: list[int]
    """The token ids that questions may be written with."""
    start: list[int]
    """The tokens that every row begins with."""
    tokenizer: Any = None
    longest: int | None = None
    """How many tokens a row may have, where the model has a table of positions."""

    @abstractmethod
    def predict(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """The likeliest token after each of `positions` (rows, answers) of `tokens` (rows, length): (rows, answers)."""


class Exported(LanguageModel):
    """A model that recollect trained."""

    def __init__(self, folder: Path, device: torch.device, trust: bool = False):
        self.name, self.device = folder.resolve().name, device
        self.run, self.model = specification(folder, trust), load(folder, trust).to(device)
        self.usable, self.start = list(range(1, self.model.vocabulary)), []  # 0 is padding, or blank, in every task
        self.longest = self.model.positions.num_embeddings if self.model.positions is not None else None

    @torch.no_grad()
    def predict(self, tokens: Tensor, positions: Tensor) -> Tensor:
        return self.model(tokens, positions).argmax(-1)


class HuggingFace(LanguageModel):
    """A model that `transformers` loads."""

    def __init__(self, name: str, model: Any, tokenizer: Any, device: torch.device):
        self.name, self.device, self.tokenizer = name, device, tokenizer
        self.model = model.to(device).eval().requires_grad_(False)
        embedding, config = model.get_input_embeddings(), model.config
        size = min(embedding.num_embeddings, len(tokenizer) if tokenizer else embedding.num_embeddings)
        special = set(_numbers(getattr(config, f"{kind}_token_id", None) for kind in ("bos", "eos", "pad")))
        self.usable = sorted(set(range(size)) - special - set(tokenizer.all_special_ids if tokenizer else ()))
        first = tokenizer("")["input_ids"][:1] if tokenizer else []
        self.start = first if first and first == [tokenizer.bos_token_id] else []
        if any(isinstance(part, nn.Embedding) and part is not embedding for part in model.modules()):
            self.longest = getattr(config, "max_position_embeddings", None)  # rotary positions need no table
        self._check()

    @torch.no_grad()
    def predict(self, tokens: Tensor, positions: Tensor) -> Tensor:
        if self.split:
            hidden = self._hidden(tokens)  # (rows, length, width)
            picked = hidden.gather(1, positions[..., None].expand(-1, -1, hidden.shape[-1]))
            return self.model.get_output_embeddings()(picked).argmax(-1)
        return self._logits(tokens).argmax(-1).gather(1, positions)

    def _hidden(self, tokens: Tensor) -> Tensor:
        return self.model.base_model(input_ids=tokens, use_cache=False)[0]

    def _logits(self, tokens: Tensor) -> Tensor:
        return self.model(input_ids=tokens, use_cache=False).logits

    @torch.no_grad()
    def _check(self) -> None:
        """One pass scores all answers only if the model does not look ahead; and logits are computed where they are read
        only if they are nothing but the head of the last hidden state."""
        tokens = torch.tensor([self.usable[i % len(self.usable)] for i in range(8)], device=self.device)[None]
        other = tokens.clone()
        other[0, -1] = self.usable[-1] if tokens[0, -1] != self.usable[-1] else self.usable[0]
        logits = self._logits(tokens)
        near = 1e-5 * logits.abs().max().item()
        if not torch.allclose(logits[:, :-1], self._logits(other)[:, :-1], atol=near):
            raise SpecError(f"{self.name} is not a causal language model: its predictions depend on later tokens")
        head, inner = self.model.get_output_embeddings(), self.model.base_model
        self.split = False
        if head is not None and inner is not self.model:
            from_head = head(self._hidden(tokens))
            self.split = from_head.shape == logits.shape and torch.allclose(from_head, logits, rtol=1e-4, atol=near)


def open_exported(folder: str | Path, device: str = "auto", trust: bool = False) -> Exported:
    """A model from a folder that `recollect export` made; with `trust`, code in the folder may be imported."""
    if not Path(folder).is_dir():
        hint = "name one that `recollect export` made, or a Hugging Face model with --hf"
        raise SpecError(f"no folder {str(folder)!r}; {hint}")
    return Exported(Path(folder), torch.device(choose_device(device)), trust)


def open_hf(model: str | Path, device: str = "auto", precision: str = "float32") -> HuggingFace:
    """A causal language model, with its tokenizer if it has one, from a local Hugging Face folder; or by its name on the Hugging
    Face Hub, as `org/name`, where there is no such folder. Code that comes with a model is never downloaded or run."""
    if precision not in PRECISIONS:
        raise SpecError(f"precision {precision!r}: {nearest(precision, PRECISIONS)}")
    folder = Path(model) if Path(model).is_dir() else _downloaded(str(model))
    name = folder.resolve().name if Path(model).is_dir() else str(model)
    if not (folder / "config.json").is_file():
        hint = " (it is an exported run: leave out --hf)" if (folder / "spec.json").is_file() else ""
        raise SpecError(f"{model} has no Hugging Face model: it has no config.json{hint}")
    transformers = _extra("transformers")
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    where, dtype = torch.device(choose_device(device)), PRECISIONS[precision]
    safely = {"local_files_only": True, "trust_remote_code": False}  # by default transformers may run code
    try:
        loaded = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, **safely)
        has_one = any((folder / name).is_file() for name in _TOKENIZERS)
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder, **safely) if has_one else None
    except Exception as error:  # each architecture fails in its own way on a folder that is damaged or of another kind
        reason = " ".join(str(error).split())[:300]
        raise SpecError(
            f"{model} cannot be loaded as a causal language model: {type(error).__name__}: {reason}"
        ) from None
    return HuggingFace(name, loaded, tokenizer, where)


def _extra(package: str) -> Any:
    try:
        return importlib.import_module(package)
    except ImportError:
        raise SpecError('a Hugging Face model needs an extra: pip install "recollect[hf]"') from None


def _downloaded(name: str) -> Path:
    """The folder of a model of the Hugging Face Hub, which is downloaded unless it was before."""
    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", name):
        hint = "name a folder on this machine, or a model of the Hugging Face Hub as org/name"
        raise SpecError(f"no folder {name!r}; {hint}")
    hub = _extra("huggingface_hub")
    _extra("huggingface_hub.utils").disable_progress_bars()
    try:
        return Path(hub.snapshot_download(name, allow_patterns=_DOWNLOADED))
    except Exception as error:  # no network, no such model, a model behind a licence: each has an error of its own
        reason = " ".join(str(error).split())[:200]
        raise SpecError(
            f"no folder {name!r} on this machine, and no model of that name can be loaded from the Hugging Face Hub: "
            f"{type(error).__name__}: {reason}"
        ) from None


def _numbers(values: Iterable[Any]) -> list[int]:
    """Token ids, given as numbers, lists of them, or None."""
    return [n for value in values for n in (value if isinstance(value, list) else [value]) if n is not None]
