"""Finished models, tiny and made here: what they score is what their construction says."""

import json
import shutil
import sys

import pandas as pd
import pytest
import tokenizers
import torch
import transformers

from recollect.analysis.intervals import wilson
from recollect.cli import app
from recollect.evaluation import evaluate, forms, open_exported, open_hf
from recollect.evaluation.asked import QUESTIONS
from recollect.evaluation.forms import as_tokens
from recollect.evaluation.score import score
from recollect.spec import SpecError

MAMBA = {"vocab_size": 96, "hidden_size": 16, "num_hidden_layers": 1, "state_size": 4}
NEOX = {"vocab_size": 96, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}


def random_model(kind: str):
    """A tiny model that has learned nothing."""
    torch.manual_seed(0)
    if kind == "mamba":
        return transformers.MambaForCausalLM(transformers.MambaConfig(**MAMBA))
    return transformers.GPTNeoXForCausalLM(transformers.GPTNeoXConfig(**NEOX))


def greedy(model, prompt: torch.Tensor, n: int) -> torch.Tensor:
    """What the model goes on with, token by token."""
    tokens = prompt
    for _ in range(n):
        tokens = torch.cat([tokens, model(input_ids=tokens).logits[:, -1:].argmax(-1)], dim=1)
    return tokens[:, prompt.shape[1] :]


def test_a_model_built_to_copy_copies(inducing):
    found = evaluate(open_hf(inducing, "cpu"), ["copy", "ar"], [4, 16, 30], shots=0, rows=32)
    assert (found.accuracy["accuracy"] == 1).all()
    assert (found.accuracy["exact_rows"] == 1).all()
    assert (found.positions["accuracy"] == 1).all()
    assert (found.accuracy["low"] > 0.88).all(), "32 rows show no more than that"
    copied = found.positions.query("task == 'copy' and length == 16 and tag == 'token'")
    assert list(copied["value"]) == list(range(16))
    assert (copied["count"] == 32).all()


def test_a_model_built_to_copy_finds_needles(inducing):
    """All but the four values of one key: four different values then followed the key."""
    found = evaluate(open_hf(inducing, "cpu"), ["needle"], [8, 60], shots=2, rows=32).accuracy.set_index("task")
    several = found.index == "needle_multivalue"
    assert (found[~several][["accuracy", "exact_rows"]] == 1).all(axis=None)
    assert (found[several]["exact_rows"] < 0.5).all()
    assert (found["shots"] == 0).all()
    assert found.loc["needle_multiquery", "tokens"].tolist() == [8 + 8 + 7, 60 + 8 + 7]


def test_a_model_is_found_by_its_name_on_the_hub(inducing, tmp_path, monkeypatch):
    """As one that was downloaded before is found offline: in the cache's layout."""
    snapshot = tmp_path / "models--some--neox" / "snapshots" / "0123"
    shutil.copytree(inducing, snapshot)
    (tmp_path / "models--some--neox" / "refs").mkdir()
    (tmp_path / "models--some--neox" / "refs" / "main").write_text("0123")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    model = open_hf("some/neox", "cpu")
    assert model.name == "some/neox"
    assert evaluate(model, ["copy"], [8], shots=0, rows=4).accuracy["accuracy"].item() == 1


def test_what_needs_two_tokens_is_beyond_it(inducing):
    found = evaluate(open_hf(inducing, "cpu"), ["ngram", "phonebook"], [16], shots=0, rows=32).accuracy
    assert (found["exact_rows"] < 0.5).all(), "it matches one token, and names and n-grams need two"


def test_an_exported_model_is_asked_its_own_task_and_others(recalling):
    model = open_exported(recalling, "cpu")
    own = evaluate(model, rows=32).accuracy.iloc[0]
    assert own["exact_rows"] == 1
    assert (own["task"], own["accuracy"], own["tokens"]) == ("own", 1.0, 17)
    others = evaluate(model, ["copy", "ar"], [4, 16], shots=0, rows=32).accuracy
    assert (others["accuracy"] == 1).all()
    with pytest.raises(SpecError, match="own task ar has no length"):
        evaluate(model, ["own"], [32])


def test_one_pass_finds_the_rows_that_greedy_decoding_finds(make_neox):
    """A model that is right in some rows: the one above, with noise on its weights."""
    torch.manual_seed(1)
    model = make_neox(80)
    with torch.no_grad():
        for p in model.parameters():
            p += 0.01 * torch.randn_like(p)
    batch = as_tokens("copy", QUESTIONS["copy"](6, 0), range(80), [], 0, 64)
    prompt = batch.tokens[:, : batch.positions[0, 0] + 1]
    decoded = (greedy(model, prompt, 6) == batch.answers).all(1)
    right = score(wrapped(model), batch).all(1)
    assert 4 < right.sum() < 60, "neither all nor none, or this would show nothing"
    assert torch.equal(right, decoded)


def wrapped(model):
    from recollect.evaluation.models import HuggingFace

    return HuggingFace("here", model, None, torch.device("cpu"))


@pytest.mark.parametrize("kind", ["neox", "mamba"])
def test_a_random_model_is_evaluated_and_logits_are_made_only_where_they_are_read(kind, tmp_path):
    random_model(kind).save_pretrained(tmp_path / kind)
    model = open_hf(tmp_path / kind, "cpu")
    assert model.split
    batch = as_tokens("ar", QUESTIONS["ar"](8, 1), model.usable, [], 0, 4)
    whole = model.model(input_ids=batch.tokens).logits.argmax(-1).gather(1, batch.positions)
    assert torch.equal(model.predict(batch.tokens, batch.positions), whole)
    first, again = (evaluate(model, lengths=[8], shots=1, rows=8) for _ in range(2))
    assert set(first.accuracy["task"]) == set(QUESTIONS)
    assert (first.accuracy["accuracy"] < 0.5).all()
    pd.testing.assert_frame_equal(first.accuracy, again.accuracy)
    pd.testing.assert_frame_equal(first.positions, again.positions)


def with_tokenizer(folder, make_neox, known: list[str]) -> None:
    """The copying model with a tokenizer of whole words."""
    ids = {word: i for i, word in enumerate(["[UNK]", "Text:", "Copy:", *known])}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(ids, unk_token="[UNK]"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()  # pyright: ignore[reportAttributeAccessIssue]
    make_neox(len(ids)).save_pretrained(folder)
    transformers.PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="[UNK]").save_pretrained(folder)


def test_text_goes_through_the_models_tokenizer(tmp_path, make_neox, monkeypatch):
    """It copies by the token before: all but the first word, which nothing has come before."""
    known = forms.LEXICON["word"][:40]
    with_tokenizer(tmp_path, make_neox, list(known))
    monkeypatch.setitem(forms.LEXICON, "word", known)
    found = evaluate(open_hf(tmp_path, "cpu"), ["copy"], [10], shots=1, rows=16)
    assert found.accuracy.iloc[0][["form", "tokens"]].tolist() == ["text", 2 * 2 * 11 - 1]
    assert found.accuracy["exact_rows"].item() == 0
    assert found.accuracy["accuracy"].item() == pytest.approx(0.9)
    curve = found.positions.query("tag == 'token'")["accuracy"].tolist()
    assert curve == [0.0] + [1.0] * 9
    asked_in_tokens = evaluate(open_hf(tmp_path, "cpu"), ["copy"], [10], shots=0, rows=16, form="tokens")
    assert asked_in_tokens.accuracy["accuracy"].item() == 1


def test_words_that_the_tokenizer_does_not_know_are_refused(tmp_path, make_neox):
    with_tokenizer(tmp_path, make_neox, ["some", "words"])
    with pytest.raises(SpecError, match="the tokenizer has no token for a part of"):
        evaluate(open_hf(tmp_path, "cpu"), ["copy"], [4], rows=2)


def test_what_is_no_model_is_refused_in_one_line(tmp_path, inducing):
    def refused(message: str, folder, **options) -> None:
        with pytest.raises(SpecError, match=message) as caught:
            evaluate(open_hf(folder, "cpu"), **options)
        assert "\n" not in str(caught.value)

    refused("no folder .*; name a folder on this machine, or a model of the Hugging Face Hub", tmp_path / "nowhere")
    refused("no folder 'nobody/nothing' on this machine, and no model of that name can be loaded", "nobody/nothing")
    refused(r"has no Hugging Face model: it has no config\.json", tmp_path)
    refused("has no tokenizer, so it cannot be asked in text", inducing, form="text")
    refused("needs 49 different tokens|needs 193 different tokens", inducing, tasks=["copy"], lengths=[64])
    refused("task 'copi': did you mean 'copy'", inducing, tasks=["copi"])
    refused("task 'own'", inducing, tasks=["own"])
    refused("form 'words'", inducing, form="words")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt_neox"}))
    refused("cannot be loaded as a causal language model", tmp_path)
    (tmp_path / "config.json").write_text("no json")
    refused("cannot be loaded as a causal language model", tmp_path)
    with pytest.raises(SpecError, match=r"is not an exported run: it has no spec\.json"):
        open_exported(inducing, "cpu")
    with pytest.raises(SpecError, match=r"expected a LanguageModel, as open_exported\(folder\) or open_hf\(folder\)"):
        evaluate("path/to/model")  # pyright: ignore[reportArgumentType]


def test_a_model_that_looks_ahead_is_refused():
    torch.manual_seed(0)
    small = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = transformers.BertLMHeadModel(transformers.BertConfig(**small, intermediate_size=16))
    with pytest.raises(SpecError, match="is not a causal language model"):
        wrapped(model)


def test_a_table_of_positions_bounds_the_rows():
    small = {"vocab_size": 96, "n_embd": 16, "n_layer": 1, "n_head": 2, "bos_token_id": 0, "eos_token_id": 0}
    model = wrapped(transformers.GPT2LMHeadModel(transformers.GPT2Config(**small, n_positions=32)))
    with pytest.raises(SpecError, match="a row of 41 tokens is longer than here's table of 32 positions"):
        evaluate(model, ["copy"], [20], shots=0)


def test_code_in_a_model_folder_never_runs(tmp_path, monkeypatch):
    """Not even if somebody says yes: transformers would ask on standard input."""
    (tmp_path / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Own: ...\nclass Config: ...\n")
    config = {"model_type": "own", "auto_map": {"AutoConfig": "own.Config", "AutoModelForCausalLM": "own.Own"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    with pytest.raises(SpecError):
        open_hf(tmp_path, "cpu")
    assert not (tmp_path / "ran").exists()


def test_without_transformers_the_extra_is_named(inducing, monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(SpecError, match=r'pip install "recollect\[hf\]"'):
        open_hf(inducing, "cpu")


def test_the_interval_of_a_share():
    """Against the closed form's known values for 0 and 8 of 10."""
    assert wilson(0, 10) == pytest.approx((0.0, 0.2775), abs=1e-4)
    assert wilson(8, 10) == pytest.approx((0.4902, 0.9433), abs=1e-4)


def test_the_command(inducing, tmp_path, capsys):
    words = ["evaluate", "--hf", inducing, "--task", "copy", "--task", "ar", "--length", "8", "--length", "16"]
    words += ["--shots", "0", "--rows", "16", "--to", tmp_path / "out"]
    app([str(word) for word in words], standalone_mode=False)
    assert "copy" in capsys.readouterr().out
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert names == {"accuracy.csv", "positions.csv", "recall.png", "recall.svg"}
    assert (pd.read_csv(tmp_path / "out" / "accuracy.csv")["accuracy"] == 1).all()
    with pytest.raises(SpecError, match="name one model"):
        app(["evaluate"], standalone_mode=False)
