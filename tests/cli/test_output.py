"""What commands print and write: names as they are, files whole or not at all, and one line where a disk is full."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from recollect.cli.app import _Plain, console
from recollect.cli.tables import text_table
from recollect.spec import SpecError
from recollect.spec.output import written_whole
from recollect.store import frames
from recollect.store.store import Store

MIXER = """
from torch import nn

class Tagged(nn.Module):
    def __init__(self, width: int, tag: str = ""):
        super().__init__()
        self.out = nn.Linear(width, width)

    def forward(self, x):
        return self.out(x.cumsum(1))
"""
TAGS = ["=cmd|' /C calc'!A0", "[/red] :bomb:", '</script><script>alert(1)</script>\\input{/etc/passwd}"""\nimport os']
STUDY = {
    "name": "inj", "task": {"kind": "mqar", "length": 16, "pairs": 2, "vocab": 32},
    "model": {"mixer": {"kind": "tagged.py:Tagged", "tag": TAGS}, "width": 16, "layers": 1},
    "train": {"lr": [0.001, 0.01], "seed": 1, "steps": 4, "batch": 4, "eval_rows": 8, "test_rows": 8},
}  # fmt: skip


def test_names_with_markup_and_formulas_are_shown_as_they_are(tmp_path, monkeypatch, cli):
    monkeypatch.chdir(tmp_path)
    Path("tagged.py").write_text(MIXER)
    Path("inj.yaml").write_text(json.dumps(STUDY))
    store = "[/red].sqlite"
    for words in [
        ("run", "inj.yaml", "--workers", 1),
        ("status",),
        ("results", "inj"),
        ("plan", "inj.yaml"),
        ("report", "inj"),
    ]:
        result = cli(*words, "--store", store)
        assert (result.code, result.err) == (0, ""), words
        for name in ["[/red]", ":bomb:"] if words[0] in ("run", "results", "plan") else []:
            assert name in result.out, words
    assert "[/red].sqlite" in cli("merge", store, "--store", "[b].sqlite").out.replace("[b]", "[/red]")
    assert cli("results", "inj", "--to", "x.csv", "--store", store).code == 0
    read = pd.read_csv("x.csv")
    assert set(read["model.mixer.tag"]) == {"'" + TAGS[0], *TAGS[1:]}
    assert "<script>alert(1)" not in Path("report.html").read_text()


def test_texts_for_a_terminal_carry_no_control_characters():
    assert str(console.render_str("a\x1b[31m\x07\u202eb[red]:bomb:\nc")) == "a\\x1b[31m\\x07\\u202eb[red]:bomb:\nc"


@pytest.mark.parametrize("ending", ["csv", "json", "parquet"])
def test_a_table_is_written_whole_or_not_at_all(tmp_path, monkeypatch, ending):
    path, frame = tmp_path / f"x.{ending}", pd.DataFrame({"a": ["=1", "b"]})
    frames.write(frame, path)
    before = path.read_bytes()

    def full(self, target, *_, **__):
        Path(target).write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pd.DataFrame, f"to_{ending}", full)
    with pytest.raises(SpecError, match=rf"cannot write .*x.{ending}: No space left on device"):
        frames.write(frame, path)
    assert (path.read_bytes(), [p.name for p in tmp_path.iterdir()]) == (before, [f"x.{ending}"])


def test_where_nothing_can_be_written_a_command_says_so_in_one_line(sound, tmp_path, cli):
    (tmp_path / "d.csv").mkdir()
    assert cli("results", "--store", sound, "--to", tmp_path / "d.csv").refuses("d.csv: it is a folder")
    assert cli("report", "--store", sound, "--to", tmp_path / "no" / "r.html").refuses("there is no folder")
    for words in [("results", "--to", "/proc/x.csv"), ("report", "--to", "/proc/x.html")]:
        assert cli(*words, "--store", sound).refuses("cannot write /proc/x")
    (run, *_) = cli_ids(sound)
    assert cli("export", run, "--to", "/proc/x", "--store", sound).refuses("cannot write /proc/x")
    assert cli("export", run, "--to", sound / "x", "--store", sound).refuses("cannot write", "Not a directory")
    long = "x" * 300
    assert cli("status", "--store", long).refuses("File name too long")
    assert cli("plan", f"{long}.yaml").refuses("File name too long")


def cli_ids(path: Path) -> list[str]:
    return frames.runs_frame(frames.Store(path))["id"].tolist()


def test_a_link_is_written_through_and_a_device_is_written_to(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with written_whole(tmp_path / "link") as draft:
        draft.write_text("new")
    assert ((tmp_path / "file").read_text(), (tmp_path / "link").is_symlink()) == ("new", True)
    with written_whole(Path("/dev/null")) as draft:
        draft.write_text("new")
    with (
        pytest.raises(SpecError, match="cannot write /dev/full: No space left"),
        written_whole(Path("/dev/full")) as draft,
    ):
        draft.write_text("new")


@pytest.mark.parametrize("word", ["--help", "--version"])
def test_output_to_a_full_disk_is_one_line(word):
    words = [sys.executable, "-m", "recollect.cli", word]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (2, "error: No space left on device\n")


@pytest.mark.parametrize(("width", "framed"), [(140, True), (60, False), (24, False)])
def test_a_table_that_a_terminal_is_too_narrow_for_becomes_a_list_with_whole_numbers(width, framed):
    out = io.StringIO()
    table = text_table(
        pd.DataFrame([["attention, width=16", "1.0e-02", "16,000"] + ["0.12345"] * 6]), list(range(1, 9))
    )
    _Plain(file=out, width=width, markup=False).print(table)
    text = out.getvalue()
    assert ("┃" in text) == framed
    assert max(map(len, text.splitlines())) <= width
    assert "1.0e-02" in text
    assert text.count("0.12345") == 6


def test_a_terminal_of_one_column_is_no_error():
    out = io.StringIO()
    _Plain(file=out, width=1).print(text_table(pd.DataFrame([["a", "0.5"]], columns=["name", "x"]), ["x"]))
    assert "a" in out.getvalue().split(), "one letter to a line"


def test_in_a_list_a_cell_without_a_heading_stands_alone():
    out = io.StringIO()
    table = text_table(pd.DataFrame([["sgd", "descent", "0.12345"]], columns=["name", "", "rate"]), ["rate"])
    _Plain(file=out, width=16).print(table)
    assert "sgd\n  descent; rate:" in out.getvalue()


def test_letters_that_the_output_cannot_show_are_escaped(tmp_path):
    words = [sys.executable, "-m", "recollect.cli", "show", "model", "attention", "width=16"]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, "")
    assert "\\u250c" in done.stdout


def test_an_empty_store_says_what_to_do(cli, tmp_path):
    with Store(tmp_path / "s.sqlite", create=True).writing():
        pass
    for command in ("status", "watch"):
        result = cli(command, "--store", tmp_path / "s.sqlite")
        assert result.code == 0
        assert "no study in" in result.out
        assert "recollect run" in result.out
