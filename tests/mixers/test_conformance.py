"""Every built-in mixer, with its options, keeps every rule of `recollect.testing`."""

from collections.abc import Callable

import pytest
import torch
from torch import nn

from recollect.mixers import MIXERS
from recollect.testing import Check, MixerConformance
from recollect.testing.measure import build, numbers, together
from recollect.testing.mixers import causality, cohort, finite, recurrence, state_size

DEEP = {"layer": 1, "layers": 3}
LONG = {"length": 1024}

CASES: list[tuple[str, dict]] = [
    ("attention", {}),
    ("attention", {"heads": 4, "bias": False}),
    ("attention", {"heads": 2, "positions": "rotary", "rotary_fraction": 0.5}),
    ("attention", {"heads": 4, "positions": "alibi"}),
    ("attention", {"heads": 4, "positions": "hard_alibi"}),
    ("attention", {"heads": 2, "positions": "relative"}),
    ("attention", {"heads": 2, "window": 5}),
    ("attention", {"heads": 2, "qk_norm": True, "init": "mimetic", "base_width": 8}),
    ("attention", {"heads": 2, "positions": "rotary", "conv": "qkv", "conv_activation": "silu", "window": 9}),
    ("attention", {"heads": 4, "kv_heads": 2, "sinks": True, "window": 9, "forget": True, "output_gate": True}),
    ("linear_attention", {}),
    ("linear_attention", {"heads": 2, "feature": "relu", "conv": "kv"}),
    ("linear_attention", {"heads": 4, "feature": "identity", "bias": False}),
    ("linear_attention", {"feature": "taylor", "feature_dim": 4, "conv": "qkv", "conv_activation": "silu"}),
    ("linear_attention", {"heads": 2, "feature": "taylor", "feature_dim": 3, "normalise": "off"}),
    ("based", {"feature_dim": 4}),
    ("based", {"feature_dim": 4, "layers": 2}),
    ("based", {"feature_dim": 4, "heads": 2, **DEEP}),
    ("based", {"form": "paper", "feature_dim": 4, "heads": 2, "window": 7}),
    ("based", {"form": "paper", "feature_dim": 4, "layers": 2}),
    ("base_conv", {}),
    ("base_conv", {"kernel": 1}),
    ("base_conv", {"implicit": True, **LONG}),
    ("h3", {"state": 8, **LONG}),
    ("h3", {"head_dim": 4, "state": 6, **LONG}),
    ("h3", {"state": 8, "discretise": "zoh", **LONG}),
    ("hyena", LONG),
    ("hyena", {"order": 3, "filter_width": 8, "features": 5, "kernel": 4, **LONG}),
    ("hyena", {"filter_width": 8, "train_features": True, "filter_init": "pytorch", **LONG}),
    ("rwkv", DEEP),
    ("rwkv", {"init": "pytorch", **DEEP}),
    ("rwkv", {"layer": 0, "layers": 1}),
    ("rwkv6", {"head_dim": 8, "mix_rank": 4, "decay_rank": 4, **DEEP}),
    ("rwkv6", {"layer": 0, "layers": 1}),
    ("rwkv7", {"head_dim": 8, **DEEP}),
    ("rwkv7", {"layer": 0, "layers": 1}),
    ("mamba", {}),
    ("mamba", {"conv": False}),
    ("mamba", {"gate": False, "state": 4, "kernel": 3, "expand": 1, "dt_rank": 3}),
    ("mamba", {"mimetic": True}),
    ("mamba", {"init": "pytorch", "layers": 3}),
    ("mamba", {"dt_init": "zero"}),
    ("s6", {}),
    ("s6", {"state": 5, "dt_rank": 2}),
    ("mamba2", {}),
    ("mamba2", {"state": 8, "head_dim": 8, "groups": 2, "expand": 3, "kernel": 2}),
    ("mamba3", {"state": 8}),
    ("lru", {}),
    ("deltanet", {}),
    ("deltanet", {"heads": 4, "kernel": 2}),
    ("deltanet", {"expand_v": 3, "norm_eps": 1e-3, "beta_max": 2.0}),
    ("gated_deltanet", {}),
    ("gated_deltanet", {"expand_v": 2, "norm_eps": 1e-6}),
    ("gated_deltanet", {"heads": 1, "output_gate": False}),
    ("deltaproduct", {}),
    ("kda", {}),
    ("gated_deltanet2", {}),
    ("gla", {}),
    ("gla", {"heads": 1, "rank": 3, "norm_eps": 1e-3}),
    ("retnet", {}),
    ("retnet", {"heads": 4}),
    ("lstm", {}),
    ("lstm", {"hidden": 24}),
]
MORE_CASES: list[tuple[str, dict]] = [
    ("attention", {"heads": 2, "kv_heads": 1, "forget": True, "positions": "alibi", "canon": True}),
    ("mamba3", {"state": 6, "head_dim": 8, "groups": 2, "rotary_fraction": 1.0, "decay": "heavy_tail"}),
    ("lru", {"state": 5, "r_min": 0.9, "max_phase": 0.5}),
    ("deltaproduct", {"steps": 3, "forget": True, "output_gate": True, "expand_v": 2, "beta_max": 1.0}),
    ("kda", {"heads": 4, "expand_v": 2, "kernel": 2, "beta_max": 2.0}),
    ("gated_deltanet2", {"heads": 4, "expand_v": 2, "kernel": 2, "beta_max": 2.0}),
]
"""Cases of the long tests."""
NEW = {kind for kind, _ in MORE_CASES} - {"attention"}
"""Mixers that the long tests alone try with two threads."""
ROUNDED = {"hyena", "h3"}
"""Those that convolve by FFT, which is causal only to rounding."""
NOT_LINEAR = {"lstm", "based", "lru"}
"""Those without values that all else could be held fixed for; Based is made of two mixers that have them; LRU's are complex."""


def name(case: tuple[str, dict]) -> str:
    """A case as pytest shows it."""
    return "-".join([case[0], *(f"{key}={value}" for key, value in case[1].items())])


class TestBuiltIn(MixerConformance):
    """All rules for all cases."""

    length = 65

    @pytest.fixture(
        autouse=True, params=[*CASES, *(pytest.param(c, marks=pytest.mark.long) for c in MORE_CASES)], ids=name
    )
    def case(self, request: pytest.FixtureRequest) -> None:
        self.kind, self.chosen = request.param
        self.exact_causality = not (self.kind in ROUNDED or self.chosen.get("implicit"))

    def make(self) -> nn.Module:
        return MIXERS.find(self.kind)(self.width, **self.chosen)

    def hold(self, check: Check) -> None:
        """A built-in mixer can do everything: nothing is skipped but where there are no values to mix."""
        more = {"exact": self.exact_causality} if check.function is causality else {}
        note = "has no mix" if check.name == "mixing" and self.kind in NOT_LINEAR else None
        assert check.function(self.make, self.width, self.length, **more) == note


FIRST = dict(reversed(CASES))
"""The first case of each mixer."""


@pytest.mark.parametrize("kind", list(MIXERS))
def test_rows_longer_than_any_chunk(kind: str):
    assert recurrence(lambda: MIXERS.find(kind)(16, **FIRST[kind]), 16, 131) is None, "it has a step, and it is forward"


ODD = {
    **{kind: {"heads": 3} for kind in ("attention", "linear_attention", "deltanet", "gated_deltanet", "gla",
                                        "deltaproduct", "kda", "gated_deltanet2")},
    "retnet": {"heads": 1}, "h3": {"head_dim": 3}, "rwkv6": {"head_dim": 5}, "rwkv7": {"head_dim": 5},
    "mamba2": {"head_dim": 5, "groups": 3}, "mamba3": {"state": 6, "head_dim": 5, "groups": 3},
}  # fmt: skip


@pytest.mark.parametrize("kind", list(MIXERS))
@pytest.mark.parametrize("rule", [finite, causality, cohort, recurrence, state_size], ids=lambda rule: rule.__name__)
def test_odd_widths(kind: str, rule: Callable[..., str | None]):
    rounded = {"exact": False} if rule is causality and kind in ROUNDED else {}
    options = FIRST[kind] | ODD.get(kind, {})
    assert rule(lambda: MIXERS.find(kind)(15, **options), 15, 35, **rounded) is None


def test_no_built_in_mixer_is_missing():
    assert {kind for kind, _ in CASES} == set(MIXERS)


@pytest.mark.parametrize(
    ("kind", "threads"),
    [
        pytest.param(kind, threads, marks=pytest.mark.long if threads == 2 and kind in NEW else ())
        for kind in MIXERS
        for threads in (1, 2)
    ],
)
def test_bits_do_not_depend_on_the_other_members_at_any_size(kind: str, threads: int):
    """Also where tensors do not fill vectors, for members in any place of a cohort."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for width, length, options in ((16, 33, {}), (24, 7, {}), (15, 9, ODD.get(kind, {}))):
            chosen = FIRST[kind] | options
            members = [
                build(lambda w=width, c=chosen: MIXERS.find(kind)(w, **c), torch.float32, seed) for seed in range(8)
            ]
            x = numbers(8, 3, length, width, kind=torch.float32)
            among_all = together(members, x)
            for few in ([0, 1], [5, 1, 7]):
                for name, value in together([members[i] for i in few], x[few]).items():
                    assert torch.equal(value, among_all[name][few]), f"width {width}, members {few}: {name}"
    finally:
        torch.set_num_threads(before)
