"""Configuration files of Zoology: read and not executed, every field mapped or named."""

import sys
from pathlib import Path

import pytest

from recollect.cli import app
from recollect.importing.script import read_script
from recollect.importing.zoology import import_zoology
from recollect.spec import SpecError
from recollect.study.spec import Study

BESIDE = """
from zoology.config import ModelConfig, ModuleConfig

def add_local(models, size, layers=2, **rest):
    for d_model in [8, 16]:
        if d_model > 99:
            continue
        local = dict(name="zoology.mixers.slide_attn.SlidingAttn", kwargs={"block_size": size, "attention_dropout": 0.0})
        both = ModuleConfig(name="zoology.mixers.hybrid.Hybrid", kwargs={"configs": [rest["conv"], local]})
        models.append(ModelConfig(d_model=d_model, n_layers=layers, sequence_mixer=both, max_position_embeddings=0,
                                  state_mixer=dict(name="torch.nn.Identity", kwargs={}), name=f"local-{size}"))
    return models
"""
CONFIG = """
import uuid
import numpy as np
from zoology.config import TrainConfig, ModelConfig, DataConfig, LoggerConfig
from zoology.data.multiquery_ar import MQARConfig
from zoology.experiments.beside import add_local

name = "sweep" + uuid.uuid4().hex[:6]
VOCAB = 2 ** 6
configs = []
for length, pairs in [(16, 2), (32, 4)]:
    batch = 8 if length == 16 else 4
    segment = MQARConfig(vocab_size=VOCAB, input_seq_len=length, num_kv_pairs=pairs, num_examples=64, random_non_queries=False)
    data = DataConfig(train_configs=[segment], test_configs=[segment], batch_size=(batch, batch // 2), cache_dir="/nowhere")
    conv = dict(name="zoology.mixers.base_conv.BaseConv", kwargs={"l_max": length, "kernel_size": [3, -1]})
    models = add_local([], 4, conv=dict(conv, kwargs={**conv["kwargs"], "kernel_size": 3}))
    models += [
        ModelConfig(d_model=8, sequence_mixer=dict(name="zoology.mixers.attention.MHA", kwargs={"num_heads": 2}),
                    max_position_embeddings=length, vocab_size=VOCAB, drop_path=0.1),
        ModelConfig(d_model=8, sequence_mixer=conv, max_position_embeddings=0, block_type="TransformerBlock"),
        ModelConfig(d_model=8, block_type="MambaBlock", max_position_embeddings=0,
                    sequence_mixer=dict(name="zoology.mixers.mamba.Mamba", kwargs={"d_state": 4})),
        ModelConfig(d_model=8, sequence_mixer=dict(name="zoology.mixers.ttt.TTT", kwargs={}), max_position_embeddings=0),
    ]
    for model in models:
        for lr in np.logspace(-3, -2, 2):
            configs.append(TrainConfig(model=model, data=data, learning_rate=lr, max_epochs=1, sweep_id=name,
                                       run_id=f"{lr:.1e}", logger=LoggerConfig(project_name="p")))
"""


@pytest.fixture
def config(tmp_path) -> Path:
    (tmp_path / "beside.py").write_text(BESIDE)
    path = tmp_path / "my_sweep.py"
    path.write_text(CONFIG)
    return path


def test_a_grid_of_runs_becomes_a_study(config, tmp_path, capsys):
    app(["import", "zoology", str(config), "-o", str(tmp_path / "study.yaml")], standalone_mode=False)
    printed = capsys.readouterr().out
    assert "20 of 24 runs" in printed
    assert "left out, 4 runs: mixer TTT does not exist here" in printed
    assert "model.drop_path: not mapped, 0.1" in printed
    study = Study.load(tmp_path / "study.yaml")
    runs = study.runs()
    assert len(runs) == 20
    assert {(run.task.length, run.task.pairs, run.train.batch) for run in runs} == {(16, 2, 8), (32, 4, 4)}
    assert {run.train.lr for run in runs} == {0.001, 0.01}
    for run in runs:
        assert (run.task.kind, run.task.vocab, run.task.variant, run.task.filler) == ("mqar", 64, "zoology", "blank")
        train = run.train
        assert (train.epochs, train.train_rows, train.test_rows, train.stop_at) == (1, 64, 64, 0.99)
        assert (train.weight_decay, train.seed, train.warmup) == (0.1, 123, 0.0)
        assert run.model.dropout_embedding == 0.1
        assert not run.tests
    models = {
        run.model.title + f" {run.model.width} {run.model.layer_blocks()[0].mlp} {run.model.positions}" for run in runs
    }
    assert models == {
        "base_conv-attention(window=5) 8 identity none", "base_conv-attention(window=5) 16 identity none",
        "attention(heads=2) 8 gelu learned", "base_conv-base_conv(implicit=True) 8 gelu none",
        "mamba(state=4, init=pytorch) 8 none none",
    }  # fmt: skip
    quick = {**study.train, "lr": 0.01, "epochs": 0, "steps": 2, "train_rows": 0, "eval_rows": 2, "test_rows": 2}
    done = study.changed(train=quick, zip=[]).run(store=tmp_path / "store.sqlite", device="cpu", progress=False)
    assert sum(done.ended.values()) == 5


def test_every_field_is_accounted_for(config):
    found = import_zoology(config)
    given = "drop_path cache_dir sweep_id run_id logger num_kv_pairs batch_size block_type d_state"
    assert set(given.split()) <= {path.rpartition(".")[2] for path in found.fates.lines}
    assert found.fates.not_mapped == [
        "model.vocab_size: not mapped, 8192: a model's vocabulary is that of its task",
        "model.drop_path: not mapped, 0.1",
    ]


FUNCTIONS = """
from zoology.config import ModelConfig
def add_mamba2(models, conv_mixer, input_seq_len, kwargs, num_layers=1):
    for d_model in [8, 16]:
        mixer = dict(name="zoology.mixers.mamba2.Mamba2", kwargs={"d_state": input_seq_len // 8})
        models.append(ModelConfig(d_model=d_model, n_layers=num_layers, sequence_mixer=mixer, **kwargs))
    return models
"""


def test_functions_alone_give_their_models(tmp_path):
    (tmp_path / "repo.py").write_text(FUNCTIONS)
    found = import_zoology(tmp_path / "repo.py")
    assert len(found.study.runs()) == 8
    assert "absent" in next(iter(found.fates.lines["configs"]))


REFUSED = {
    "import os\nos.system('touch ran')": r"config.py:2: ValueError: os.system is called with arguments that have no names",
    "configs = open('ran', 'w')": r"config.py:1: the name 'open' is not known",
    "configs = ().__class__": r"config.py:1: .__class__ of a tuple is not supported",
    "configs = 'a' * 10**9": r"config.py:1: .*more than 100,000 items are not supported",
    "x = [1]\nfor i in range(99):\n    x = x + x\nconfigs = x": r"config.py:3: more than 100,000 items are not supported",
    "configs = 9 ** 9 ** 9": r"config.py:1: ValueError: a power this large is not supported",
    "configs = [0 for i in range(9**5) for j in range(9**5)]": r"more than 300,000 expressions are not supported",
    "def f():\n    return f()\nconfigs = f()": r"more than 50 deep are not supported",
    "with open('x') as f:\n    pass": r"config.py:1: a statement of the kind With is not supported",
    "configs = (": r"config.py: cannot be read as Python",
    "x = 1": r"config.py: it makes no list `configs`",
    "x = [1] * 999\nconfigs = sum([x] * 999, [])": r"config.py:2: ValueError: the sum of lists is not supported",
    "x = 2\nfor i in range(99):\n    x = x * x": r"config.py:3: a number of more than 4,096 bits is not supported",
    "import numpy as np\nx = [1] * 99999\ny = np.array([x] * 99999)": r"config.py:3: .* anything but numbers up to 100,000",
    "import numpy as np\nx = np.array([1], dtype='U999999999')": r"config.py:2: .* anything but numbers up to 100,000",
    "configs = " + "-" * 100_000 + "1": r"config.py: cannot be read as Python",
    "from zoology.config import DataConfig\nx = DataConfig(a=1).b": r"config.py:2: DataConfig.b is not set in the file",
}


@pytest.mark.parametrize("source", REFUSED)
def test_what_cannot_be_read_is_refused_with_the_line_and_nothing_runs(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.py").write_text(source)
    with pytest.raises(SpecError, match=REFUSED[source]) as caught:
        import_zoology(tmp_path / "config.py")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "ran").exists()


def test_the_language_that_is_read(tmp_path):
    (tmp_path / "script.py").write_text(
        "a, (b, c) = 1, (2, 3)\nd = {'x': a, **{'y': b}}\nd['z'] = -c\ne = [v * 2 for v in d.values() if v > 0]\n"
        "f = f'{a:03d}-{b}'\ng = 'yes' if a < b <= c and not a == b else 'no'\nh = [*e, *range(2)][1:]\n"
        "def k(x, y=5, *, z=0):\n    for i in [1, 2, 3]:\n        if i == 2:\n            break\n    return x + y + z + i\n"
        "m = k(1, z=10)\nn = 7\nn //= 2\n"
    )
    found = read_script(tmp_path / "script.py")
    assert {name: value for name, value in found.items() if name != "k"} == {
        "a": 1, "b": 2, "c": 3, "d": {"x": 1, "y": 2, "z": -3}, "e": [2, 4], "f": "001-2", "g": "yes", "h": [4, 0, 1],
        "m": 18, "n": 3,
    }  # fmt: skip


def test_a_module_in_another_folder_of_the_checkout_is_read(tmp_path):
    """As Zoology's own examples import its models; a module that defines classes gives their names only."""
    experiments = tmp_path / "zoology" / "experiments"
    (experiments / "mine").mkdir(parents=True)
    classes = "from zoology.experiments.repo import add_mamba2\nclass TrainConfig:\n    pass\n"
    (tmp_path / "zoology" / "config.py").write_text(classes)
    (experiments / "repo.py").write_text(FUNCTIONS.replace("import ModelConfig", "import ModelConfig, TrainConfig"))
    (experiments / "mine" / "sweep.py").write_text(
        "from zoology.config import TrainConfig, DataConfig\nfrom zoology.data.multiquery_ar import MQARConfig\n"
        "from zoology.experiments.repo import add_mamba2\nfrom ..repo import add_mamba2 as again\n"
        "part = MQARConfig(num_examples=64)\ndata = DataConfig(train_configs=[part], test_configs=[part])\n"
        "configs = [TrainConfig(model=m, data=data) for m in again(add_mamba2([], None, 64, {}), None, 32, {})]\n"
        "if __name__ == '__main__':\n    configs = []\n"
    )
    found = import_zoology(experiments / "mine" / "sweep.py")
    assert sorted((run.model.width, run.model.mixer.options["state"]) for run in found.study.runs()) == [
        (8, 4), (8, 8), (16, 4), (16, 8)
    ]  # fmt: skip


ONE_EACH = """
from zoology.config import TrainConfig, ModelConfig, DataConfig
from zoology.data.multiquery_ar import MQARConfig
part = MQARConfig(num_examples=64)
data = DataConfig(train_configs=[part], test_configs=[part])
def model(name, block="TransformerBlock", **kwargs):
    mixer = dict(name="zoology.mixers." + name, kwargs=kwargs)
    return ModelConfig(d_model=96, sequence_mixer=mixer, max_position_embeddings=0, block_type=block)
configs = [TrainConfig(model=m, data=data) for m in (%s)]
"""


def imported(tmp_path: Path, models: str):
    (tmp_path / "each.py").write_text(ONE_EACH % models)
    return import_zoology(tmp_path / "each.py")


def test_options_left_out_have_the_values_of_zoologys_classes(tmp_path):
    kinds = "based.Based h3.H3 mamba2.Mamba2 delta_net.DeltaNet gla.GatedLinearAttention hyena.Hyena rwkv.RWKVTimeMixer"
    models = ", ".join(f"model('{kind}')" for kind in kinds.split())
    found = imported(tmp_path, f"{models}, model('mamba.Mamba'), model('mamba.Mamba', 'MambaBlock')")
    runs = {
        run.model.mixer.kind + run.model.layer_blocks()[0].mlp: run.model.mixer.options for run in found.study.runs()
    }
    assert runs == {
        "linear_attentiongelu": {"feature": "taylor", "heads": 12, "feature_dim": 16, "bias": False},
        "h3gelu": {"head_dim": 1, "state": 64}, "mamba2gelu": {"state": 128}, "deltanetgelu": {"heads": 4},
        "glagelu": {"heads": 4}, "hyenagelu": {"train_features": True}, "rwkvgelu": {"init": "pytorch"},
        "mambagelu": {"dt_init": "zero"}, "mambanone": {"init": "pytorch"},
    }  # fmt: skip


def test_a_deep_hybrid_takes_turns_and_what_is_no_configuration_is_one_clear_line(tmp_path):
    part = "{'name': 'a.%s', 'kwargs': {'num_heads': 2}}"
    turns = f"'configs': [{part % 'MHA'}, {part % 'DeltaNet'}]"
    deep = f"ModelConfig(n_layers=12, sequence_mixer={{'name': 'a.Hybrid', 'kwargs': {{{turns}}}}})"
    (run,) = imported(tmp_path, f"{deep},").study.runs()
    assert [block.mixer.kind for block in run.model.layer_blocks()] == ["attention", "deltanet"] * 6
    for wrong in ("ModelConfig(sequence_mixer='MHA')", "ModelConfig(n_layers=10**12)", "1"):
        with pytest.raises(SpecError, match=r"each\.py: ") as caught:
            imported(tmp_path, f"{wrong},")
        assert "\n" not in str(caught.value)
    for wrong in ("[1, 2]", "'abc'", "5", "{'a': 1}"):
        (tmp_path / "each.py").write_text(f"configs = {wrong}")
        with pytest.raises(SpecError, match="it makes no list `configs`"):
            import_zoology(tmp_path / "each.py")


def test_a_feature_map_is_mapped_or_its_run_left_out_and_runs_that_become_the_same_are_counted_once(tmp_path):
    maps = [
        "taylor_exp",
        "zoology.mixers.feature_maps.taylor.TaylorExp",
        "zoology.mixers.feature_maps.base.PosELU",
        "all_poly",
    ]
    models = ", ".join(f"model('based.Based', num_heads=2, feature_name='{name}')" for name in maps)
    found = imported(tmp_path, models)
    assert sorted(
        run.model.mixer.options["feature"] for run in found.study.runs() if run.model.mixer.options.get("feature")
    ) == ["taylor"]
    assert found.runs - sum(found.left_out.values()) == len(found.study.runs()) == 2
    assert set(found.left_out) == {
        "mixer Based with the feature map all_poly does not exist here",
        "the same as another run, but for what is not mapped",
    }


def test_a_trusted_file_is_executed(config, tmp_path, monkeypatch):
    """With a package of Zoology's names in its place."""
    package = tmp_path / "installed" / "zoology"
    for folder in (package, package / "data", package / "experiments"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "__init__.py").write_text("")
    fields = "    model_config = {'extra': 'allow'}\n"
    names = ("TrainConfig", "ModelConfig", "DataConfig", "LoggerConfig", "ModuleConfig")
    bases = "\n".join(f"class {name}(BaseModel):\n{fields}" for name in names)
    (package / "config.py").write_text(f"from pydantic import BaseModel\n{bases}")
    (package / "data" / "multiquery_ar.py").write_text(
        f"from pydantic import BaseModel\nclass MQARConfig(BaseModel):\n{fields}"
    )
    (package / "experiments" / "beside.py").write_text(BESIDE)
    monkeypatch.syspath_prepend(str(tmp_path / "installed"))
    trusted = import_zoology(config, trust=True)
    assert trusted.text == import_zoology(config).text
    for name in [name for name in sys.modules if name.partition(".")[0] == "zoology"]:
        monkeypatch.delitem(sys.modules, name)
