"""The report: one file that opens without a network, says what the store says, and breaks on nothing that a store may hold."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from recollect import Study
from recollect.reporting import curves, report
from recollect.reporting.content import study_content
from recollect.spec import SpecError
from recollect.store.frames import curves_frame, runs_frame, slices_frame
from recollect.store.store import Store, StoreError

RUNS = "[...document.querySelectorAll('details.part')].find((part) => part.textContent.startsWith('Runs'))"
EVIL = "</script><script>document.title='broken'</script>"


def small(name="small", **train) -> Study:
    steps = {"steps": 12, "batch": 8, "eval_every": 4, "eval_rows": 16, "test_rows": 32, "slices": "always"}
    return Study(
        name=name, task={"kind": "mqar", "length": 16, "pairs": 2, "vocab": 32},
        model={"mixer": ["attention", {"kind": "attention", "conv": "k"}], "width": 16, "layers": 1},
        train={"lr": [0.001, 0.01, 0.1], "seed": [1, 2], **steps, **train},
    )  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store with a trained study, one that diverged, one with failures, one without results, and one with an evil name."""
    path = tmp_path_factory.mktemp("report") / "store.sqlite"
    small().run(device="cpu", workers=1, store=path, progress=False)
    small("wild", lr=[1e30], seed=[1]).run(device="cpu", workers=1, store=path, progress=False)
    store = Store(path)
    with store.writing() as writer:
        runs, broken = small().runs(), small("broken", seed=[1, 9])
        writer.add_study("broken", broken.to_yaml(), broken.runs())
        failed = next(run for run in broken.runs() if run.train.seed == 9)
        writer.add_failure(failed.id, 1, f"RuntimeError: {EVIL}", "Traceback (most recent call last):\n  it broke here")
        writer.add_failure(runs[0].id, 1, "OSError: lost", "Traceback of what went well later")
        writer.add_study("empty", "name: empty\n", small("empty", lr=[0.5]).runs())
        writer.add_study(EVIL, f"name: x # {EVIL}\n", runs[:2])
    return store


def data_of(path) -> dict:
    """The data in a page, as a browser finds it: the first script ends at the first end tag."""
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', path.read_text(), re.S)[1])


def test_the_data_are_the_stores_to_the_last_digit(store, tmp_path):
    (study,) = data_of(report(store, ["small"], tmp_path / "r.html"))["studies"]
    frame = runs_frame(store, "small")
    for column in ("id", "configuration", "status", "accuracy", "best_accuracy", "final.loss", "seconds", "train.lr"):
        assert study["runs"][column] == frame[column].tolist()
    points = curves_frame(store, "small").groupby("run")
    assert [study["runs"]["id"][curve["run"]] for curve in study["curves"]] == frame["id"].tolist()
    for curve in study["curves"]:
        own = points.get_group(study["runs"]["id"][curve["run"]])
        for column in ("step", "accuracy", "train_loss", "test_loss", "grad_norm"):
            assert curve[column] == own[column].tolist()
    assert sum(map(sum, study["slices"][0]["counts"])) > 0


def test_slices_are_the_sums_over_seeds_at_the_best_rate(store, tmp_path):
    (study,) = data_of(report(store, ["small"], tmp_path / "r.html"))["studies"]
    runs, frame = runs_frame(store, "small"), slices_frame(store, "small")
    best = {row["configuration"]: row["best_rate"] for row in study["headline"]}
    for found in study["slices"]:
        name = found["configuration"]
        ids = runs.loc[(runs["configuration"] == name) & (runs["train.lr"] == best[name]), "id"]
        own = frame[frame["run"].isin(ids) & (frame["tag"] == found["tag"])]
        table = own.groupby(["step", "value"])[["count", "right"]].sum()
        for k, step in enumerate(found["steps"]):
            for j, value in enumerate(found["values"]):
                assert (found["counts"][k][j], found["right"][k][j]) == tuple(table.loc[(step, int(value))])


def test_no_text_of_a_store_leaves_its_place(store, tmp_path):
    path = report(store, [], tmp_path / "r.html")
    scripts = []

    class Scripts(HTMLParser):
        def handle_starttag(self, tag, attributes):
            if tag == "script":
                scripts.append(dict(attributes))

    Scripts().feed(path.read_text())
    assert scripts == [{"type": "application/json", "id": "data"}, {}]
    assert EVIL in [study["name"] for study in data_of(path)["studies"]]
    alone = report(store, [EVIL], tmp_path / "evil.html").read_text()
    assert "<title>&lt;/script&gt;" in alone


def test_nothing_in_the_file_points_elsewhere(store, tmp_path):
    text = report(store, [], tmp_path / "r.html").read_text()
    shell = text.replace("http://www.w3.org/2000/svg", "")  # the name of a language, not a place to fetch
    assert not re.search(r"https?://|//[a-z]+\.|@import|url\(|<link(?! rel=\"icon\" href=\"data:,\")", shell)
    assert "default-src 'none'" in text


def test_a_study_without_results_one_that_diverged_and_one_with_failures(store, tmp_path):
    path = report(store, ["empty", "wild", "broken"], tmp_path / "r.html")
    empty, wild, broken = data_of(path)["studies"]
    assert (empty["planned"], empty["ended"], empty["headline"]) == (4, 0, [])
    assert wild["statuses"] == {"diverged": 2}
    assert wild["runs"]["accuracy"] == [None, None] or all(x < 0.5 for x in wild["runs"]["accuracy"])
    assert "NaN" not in re.search(r'id="data">(.*?)</script>', path.read_text(), re.S)[1]
    assert broken["failed"] == 1
    lost, mended = broken["failures"]
    assert lost["error"] == f"RuntimeError: {EVIL}"
    assert "it broke here" in lost["traceback"]
    assert "seed 9" in lost["about"]
    assert lost["ended"] is None
    assert mended["ended"] == "finished"


def test_what_a_protocol_chose_itself_is_told(store, tmp_path):
    study = Study(name="told", model={"width": 16, "layers": 1}, train={"protocol": "okpekpe2025"})
    with store.writing() as writer:
        writer.add_study("told", study.to_yaml(), study.runs())
    (told,) = data_of(report(store, ["told"], tmp_path / "r.html"))["studies"]
    assert any("train.schedule" in text and "decay" in text for text in told["unknowns"])


def test_a_large_study_is_thinned_and_says_so(store, monkeypatch):
    monkeypatch.setattr(curves, "FEWEST", 2)
    monkeypatch.setattr(curves, "NUMBERS", 8 * 10 * 2)
    study = study_content(store, "small", curves.Budget(12))
    assert len(study["curves"]) == 8
    assert all(curve["step"] == [4, 12] for curve in study["curves"]), "the first and the last measurement"
    assert "at most 2 of up to 3 measurements" in study["curves_said"]
    assert "Curves of 8 of 12 runs" in study["curves_said"]
    best = {(row["configuration"], row["best_rate"]) for row in study["headline"]}
    runs, shown = study["runs"], {curve["run"] for curve in study["curves"]}
    at_best = {i for i in range(12) if (runs["configuration"][i], runs["train.lr"][i]) in best}
    assert at_best <= shown


def test_a_name_the_store_has_not_is_told_with_those_it_has(store, tmp_path):
    with pytest.raises(StoreError, match=r"no study 'smal'.*did you mean 'small'.*broken, empty, small"):
        report(store, ["smal"], tmp_path / "r.html")
    with pytest.raises(SpecError, match="there is no folder"):
        report(store, ["small"], tmp_path / "no" / "r.html")
    with pytest.raises(SpecError, match="it is a folder"):
        report(store, ["small"], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_from_the_command_line(store, tmp_path):
    def recollect(*words):
        command = [sys.executable, "-m", "recollect.cli", "report", *words, "--store", str(store.path)]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)

    done = recollect("small", "--to", "out.html")
    assert done.returncode == 0, done.stderr
    assert "out.html" in done.stdout
    assert data_of(tmp_path / "out.html")["command"].startswith("recollect report small --store")
    lost = recollect("smal")
    assert lost.returncode == 2
    assert len(lost.stderr.strip().splitlines()) == 1
    assert "did you mean 'small'" in lost.stderr


@pytest.fixture
def reproduced(tmp_path, store):
    """A folder as `recollect reproduce` leaves it, and a store with a study of that paper."""
    folder = tmp_path / "tiny" / "made2025"
    folder.mkdir(parents=True)
    record = {"paper": "made2025", "item": "fig1", "claim": "wide", "note": "", "scale": "tiny", "runs": 4}
    answers = {"holds": "it holds", "does not hold": f"it does not {EVIL}"}
    numbers = {"wide": "1.5 (1 .. 2)"}
    verdicts = [{**record, "says": says, "answer": answer, "numbers": numbers} for answer, says in answers.items()]
    (folder / "verdicts.json").write_text(json.dumps(verdicts))
    square = '<svg xmlns="http://www.w3.org/2000/svg" width="8" height="8"><rect width="8" height="8"/></svg>'
    (folder / "fig1.svg").write_text(square)
    (folder / "fig1.csv").write_text("model,accuracy\nattention,0.875\nmamba,\n")
    with store.writing() as writer:
        writer.add_study("made2025.fig1.tiny", "name: made2025.fig1.tiny\n", small().runs()[:4])
    return folder


def test_a_reproduction_brings_its_verdicts_pictures_and_studies(store, reproduced, tmp_path):
    data = data_of(report(store, [], tmp_path / "r.html", reproduced))
    assert [study["name"] for study in data["studies"]] == ["made2025.fig1.tiny"]
    found = data["reproduction"]
    assert [verdict["answer"] for verdict in found["verdicts"]] == ["does not hold", "holds"], (
        "what did not hold comes first"
    )
    (item,) = found["items"]
    assert item["picture"].startswith("data:image/svg+xml;base64,")
    assert item["numbers"] == {
        "columns": ["model", "accuracy"],
        "rows": [["attention", 0.875], ["mamba", None]],
        "of": 2,
    }
    with pytest.raises(SpecError, match=r"no verdicts\.json"):
        report(store, [], tmp_path / "r.html", tmp_path)


def test_it_opens_in_a_browser_alone_with_its_numbers(browser, store, tmp_path):
    path = report(store, ["small"], tmp_path / "r.html")
    browser.open(path)
    assert browser.js("document.documentElement.dataset.ready") == "yes"
    assert browser.said == []
    assert browser.requests == [path.resolve().as_uri()]
    assert browser.js("document.querySelectorAll('.drawing svg').length") == 4
    assert browser.js("document.querySelectorAll('figure path.curve[data-group]').length") == 2 + 4, (
        "2 means, 4 best runs"
    )
    assert browser.js("document.querySelectorAll('figure rect.cell').length") > 6
    assert browser.js(f"{RUNS}.querySelectorAll('tbody tr').length") == 12
    frame = runs_frame(store, "small")
    cells = "[...document.querySelectorAll('details.part td.number')].map(td => Number(td.title || td.textContent))"
    assert set(frame["accuracy"]) | set(frame["final.loss"]) <= set(browser.js(cells))


def test_mouse_keyboard_key_and_axes_work(browser, store, tmp_path):
    browser.open(report(store, ["small"], tmp_path / "r.html"))
    browser.js("document.querySelector('.drawing svg').focus()")
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        browser.call("Input.dispatchKeyEvent", type="keyDown", key=key)
    frame = runs_frame(store, "small")
    second = frame[(frame["configuration"] == "attention(conv=k)") & (frame["train.lr"] == 0.01)]["accuracy"]
    said = browser.js("document.getElementById('spoken').textContent")
    assert said.startswith("attention(conv=k)\nlearning rate 0.01\naccuracy ")
    assert float(said.split("accuracy ")[1].split(":")[0]) == pytest.approx(second.mean(), rel=1e-3)
    box = browser.js(
        "(r => [r.x + r.width / 2, r.y + 60])(document.querySelector('.drawing svg').getBoundingClientRect())"
    )
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=box[0], y=box[1])
    assert "mean of 2 runs" in browser.js("document.querySelector('.tip:not([hidden])').textContent")
    browser.js("document.querySelector('.legend button').click()")
    assert browser.js("document.querySelector('figure').querySelectorAll('path.curve[data-group]').length") == 1
    before = browser.js("document.querySelector('figure path.curve[data-group]').getAttribute('d')")
    browser.js("document.querySelector('figure input[type=checkbox]').click()")
    browser.js("document.querySelector('.legend button').click()")
    assert browser.js("document.querySelector('figure path.curve[data-group]').getAttribute('d')") != before, (
        "linear now"
    )
    assert browser.said == []


def test_tables_sort_and_filter(browser, store, tmp_path):
    browser.open(report(store, ["small"], tmp_path / "r.html"))
    column = browser.js(f"[...{RUNS}.querySelectorAll('th')].findIndex((head) => head.textContent === 'accuracy')")
    browser.js(f"{RUNS}.querySelectorAll('th button')[{column}].click()")
    cells = f"[...{RUNS}.querySelectorAll('tbody tr')].map((row) => row.children[{column}])"
    values = browser.js(f"{cells}.map((cell) => Number(cell.title || cell.textContent))")
    assert values == sorted(runs_frame(store, "small")["accuracy"], reverse=True)
    browser.js(f"{RUNS}.querySelector('input').value = 'seed=2 conv=k'")
    browser.js(f"{RUNS}.querySelector('input').dispatchEvent(new Event('input'))")
    assert browser.js(f"{RUNS}.querySelectorAll('tbody tr').length") == 3
    assert browser.said == []


def test_every_choice_of_every_chart_draws(browser, store, tmp_path):
    browser.open(report(store, ["small", "wild", "broken"], tmp_path / "r.html"))
    browser.js("""
        const controls = (what) => [...document.querySelectorAll(`figure ${what}`)]; // a choice renews its neighbours
        for (let k = 0; k < controls('select').length; k++) {
            const values = [...controls('select')[k].options].map((option) => option.value);
            for (const value of [...values, values[0]]) {
                controls('select')[k].value = value;
                controls('select')[k].dispatchEvent(new Event('change'));
            }
        }
        for (let k = 0; k < controls('input').length; k++) controls('input')[k].click();
    """)
    assert browser.said == []
    assert browser.js("document.getElementById('faults').hidden")


def test_evil_names_failures_and_reproductions_in_a_browser(browser, store, reproduced, tmp_path):
    names = [*store.studies()]
    browser.open(report(store, names, tmp_path / "r.html", reproduced))
    browser.js("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    browser.js("dispatchEvent(new Event('beforeprint'))")
    assert browser.js("document.title") == "made2025: reproduced at scale tiny"
    assert browser.js("document.querySelectorAll('details.study').length") == len(names)
    assert browser.js("document.querySelectorAll('.verdict.bad, .verdict.good').length") == 2
    assert browser.js("document.querySelector('figure.picture img').naturalWidth") == 8
    assert "it broke here" in browser.js("document.body.textContent")
    assert EVIL in browser.js("document.body.textContent")
    assert browser.js("document.querySelectorAll('script').length") == 2
    assert browser.said == []
    assert all(url.startswith(("file://", "data:")) for url in browser.requests)
