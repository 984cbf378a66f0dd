"""Views: the numbers they draw are those of the frames, colours belong to the mixer, and text is text."""

import numpy as np
import pandas as pd
import pytest

from recollect.analysis.window import windows
from recollect.spec import SpecError
from recollect.store.frames import curves_frame, runs_frame, slices_frame
from recollect.views import VIEWS, plot
from recollect.views.base import Frames, prepared
from recollect.views.filter import matching
from recollect.views.style import colours, looks

EVIL = "<b>x</b><a href='https://example.org'>$1$</a>"


@pytest.fixture(scope="module")
def frames(made, tmp_path_factory) -> Frames:
    store = made(tmp_path_factory.mktemp("views") / "s.sqlite", made.study())
    mixing = pd.DataFrame({"matrix": "m", "token": [0, 1, 1], "reads": [0, 0, 1], "size": [1.0, 0.25, 0.75]})
    return Frames(prepared(runs_frame(store)), curves_frame(store), slices_frame(store), mixing)


@pytest.mark.parametrize("name", VIEWS)
def test_every_view_draws_every_choice(frames, name):
    view = VIEWS.find(name)()
    choices = view.choices(frames)
    assert choices
    for choice in choices:
        for value in choice.options:
            assert plot(name, frames, **{choice.name: value}).data, f"{choice.name} {value}"
    assert plot(name, frames, theme="dark").layout.template.layout.paper_bgcolor == "#151b23"
    assert view.caption(frames)


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_of_nothing_says_so(name):
    assert plot(name, Frames(pd.DataFrame())).layout.annotations[0].text == "nothing to draw yet"


def test_lines_are_means_over_seeds_and_windows_are_those_of_the_analysis(frames):
    figure = plot("window", frames)
    label = frames.runs["configuration"].iloc[0]
    own = frames.runs[frames.runs["configuration"] == label].groupby("train.lr")["accuracy"]
    line = next(t for t in figure.data if t.name == label and t.mode == "lines+markers")
    assert list(line.x) == list(own.mean().index)
    np.testing.assert_allclose(line.y, own.mean())
    found = windows(frames.runs, resamples=1).set_index("configuration")
    bars = {t.name: t.x for t in figure.data if t.yaxis == "y2"}
    assert set(bars) == set(found.index[found["decades"] > 0])
    for name, edges in bars.items():
        assert tuple(edges) == (found.loc[name, "low"], found.loc[name, "high"])


def test_a_size_is_shown_at_each_configurations_own_best_rate(frames):
    (line,) = [t for t in plot("scaling", frames, x="model.width").data if t.name == "attention" and t.mode != "lines"]
    for width, accuracy in zip(line.x, line.y, strict=True):
        own = frames.runs[(frames.runs["model.mixer"] == "attention") & (frames.runs["model.width"] == width)]
        assert accuracy == pytest.approx(own.groupby("train.lr")["accuracy"].mean().max())


def test_a_run_that_ended_early_keeps_its_last_value_and_one_in_training_does_not():
    runs = pd.DataFrame({"id": ["a", "b", "c"], "configuration": "m", "model": "m", "status": ["solved", "finished", "training"],
                         "train.lr": 0.1, "train.seed": [1, 2, 3], "accuracy": [1.0, 0.5, 0.0]})  # fmt: skip
    points = pd.DataFrame({"run": ["a", "b", "b", "c"], "step": [1, 1, 2, 1], "accuracy": [1.0, 0.2, 0.5, 0.0]})
    frames = Frames(prepared(runs), points)
    view = VIEWS.find("curves")()
    table = view.table(frames, view.chosen(frames, {}))
    assert table["mean"].tolist() == pytest.approx([0.4, 0.75])
    assert table["count"].tolist() == [3, 2]


def test_colours_belong_to_the_mixer():
    many = looks(["mamba2, width=16", "mamba2, width=32", "attention"])
    alone = looks(["attention"])
    assert many["mamba2, width=16"]["colour"] == many["mamba2, width=32"]["colour"] != many["attention"]["colour"]
    assert many["mamba2, width=16"]["dash"] != many["mamba2, width=32"]["dash"]
    assert alone["attention"]["colour"] == many["attention"]["colour"]
    assert len({look["colour"] for look in looks(["a, x=1", "a, x=2", "a, x=3"]).values()}) == 3, (
        "one mixer, many colours"
    )
    assert "#000000" in colours("light")
    assert "#000000" not in colours("dark")


def test_markup_in_names_is_text(frames):
    runs = frames.runs.assign(configuration=EVIL, model=EVIL)
    for name in ("window", "heatmap", "parallel"):
        assert "<a href" not in plot(name, Frames(runs, frames.curves, frames.slices), title=EVIL).to_json()


def test_what_is_not_offered_is_refused_with_the_nearest(frames):
    with pytest.raises(SpecError, match="did you mean 'window'"):
        plot("windw", frames)
    with pytest.raises(SpecError, match=r"'z' cannot be chosen"):
        plot("window", frames, z="accuracy")
    with pytest.raises(SpecError, match=r"y 'acuracy'.*accuracy"):
        plot("window", frames, y="acuracy")


def test_several_studies_are_distinguished_and_the_best_lines_kept(frames):
    both = pd.concat([frames.runs.assign(study="one"), frames.runs.assign(study="two", id=frames.runs["id"] + "2")])
    figure = plot("window", Frames(both.drop(columns="at_best")), top="all")
    assert {t.name.split(" · ")[1] for t in figure.data} == {"one", "two"}
    best = plot("window", Frames(both.drop(columns="at_best")), top="3")
    assert len({t.name for t in best.data}) == 3


@pytest.mark.parametrize(("text", "kept"), [
    ("mamba2 width=32", lambda r: (r["model.mixer"] == "mamba2") & (r["model.width"] == 32)),
    ("accuracy>0.9", lambda r: r["accuracy"] > 0.9),
    ("lr<=0.01 seed!=2", lambda r: (r["train.lr"] <= 0.01) & (r["train.seed"] != 2)),
    ("status=finish", lambda r: r["status"] == "finished"), ("learning_rate=0.1", lambda r: r["train.lr"] == 0.1),
    ("nothing=here", lambda r: r["accuracy"] > 2), ("[", lambda r: r["accuracy"] > 2),
])  # fmt: skip
def test_a_filter_reads_words_fields_and_comparisons(frames, text, kept):
    assert matching(frames.runs, text).tolist() == kept(frames.runs).tolist()
