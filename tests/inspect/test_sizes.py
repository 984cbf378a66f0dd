"""The size of a model's state, counted by hand."""

from recollect.inspect.sizes import state_sizes
from recollect.train.spec import RunSpec


def test_attention_keeps_every_token_and_a_recurrent_mixer_a_matrix_per_head():
    task, train = {"kind": "mqar", "length": 16, "pairs": 2, "vocab": 32}, {"steps": 1}
    attention, retnet = (
        RunSpec(task=task, model={"mixer": mixer, "width": 8, "layers": 2}, train=train)
        for mixer in ("attention", {"kind": "retnet", "heads": 2})
    )
    layers, keys_and_values, heads = 2, 2, 2
    assert state_sizes([attention, retnet]) == {
        attention.id: layers * keys_and_values * 16 * 8,
        retnet.id: layers * heads * 4 * 4,
    }
