"""An example of a task can be read, with and without colour, at any width."""

import re
from itertools import pairwise

import pytest
from rich.console import Console

from recollect.tasks import MQAR, TASKS, Compositional, Copy, Duplicates, Mixture, NGram, Position, Task, as_task
from recollect.tasks.show import Example


def printed(task: Task, width: int = 100, colour: bool = False, seed: int = 0, number: int = 0) -> str:
    console = Console(width=width, force_terminal=colour, color_system="standard" if colour else None, record=True)
    with console.capture() as capture:
        console.print(Example(task, seed, number))
    return capture.get()


def marked(text: str) -> dict[str, str]:
    """Each mark's token, read off the lines: a line of marks is under a line of tokens."""
    found = {}
    for words, marks in pairwise(text.splitlines()):
        if re.match(r" *\d+  ", words) and re.match(r"  +\S", marks):
            found |= {mark.group(): words[mark.start() :].split()[0] for mark in re.finditer(r"\S+", marks)}
    return found


@pytest.mark.parametrize("kind", sorted(set(TASKS) - {"mixture"}))
@pytest.mark.parametrize("width", [60, 100, 200])
def test_every_task_can_be_shown_within_the_width(kind, width):
    text = printed(as_task(kind), width)
    assert max(map(len, text.splitlines())) <= width
    assert "? question" in text
    assert text.startswith(kind)


@pytest.mark.parametrize("task", [MQAR(), MQAR(length=512, pairs=64)])
def test_marks_are_under_their_tokens(task):
    marks, row = marked(printed(task)), task.batch(0, "show", 1)
    for number in range(1, task.pairs + 1):
        answer, at, source = (getattr(row, name)[0, number - 1].item() for name in ("answers", "positions", "source"))
        assert marks[f"?^{number}"] == task.word(row.tokens[0, at].item())
        assert marks[f"={number}"] == task.word(answer) == task.word(row.tokens[0, source].item())


def test_answers_are_listed_with_their_places():
    task = NGram()
    row, text = task.batch(3, "show", 1), printed(task, seed=3)
    for number, (answer, at) in enumerate(zip(row.answers[0].tolist(), row.positions[0].tolist(), strict=True), 1):
        assert f"{number}: {task.word(answer)} at {at}" in text


def test_what_is_learned_but_not_scored_is_starred():
    text = printed(Position(length=20))
    assert "* in the loss, not in the accuracy" in text
    assert re.search(r"2: bos at 23 \*", text)
    assert "*" not in printed(MQAR())


def test_other_right_answers_and_padding_are_named():
    task = Duplicates(segments=3)
    grams = task.batch(0, "show", 1).candidates[0].tolist()
    assert "Equally right: " + ", ".join(" ".join(map(task.word, gram)) for gram in grams) in printed(task)
    row = Copy().batch(2, "show", 1).tokens[0]
    padding = len(row) - row.nonzero().max().item() - 1
    assert f"the last {padding} are padding" in printed(Copy(), seed=2)


def test_colour_marks_the_same():
    plain, coloured = printed(MQAR()), printed(MQAR(), colour=True)
    assert "\x1b[" in coloured
    assert "\x1b[" not in plain
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain


def test_any_part_of_a_mixture_can_be_shown():
    mixture = Mixture(parts=(MQAR(), MQAR(length=128), Compositional(vocab=8192)), weights=(2, 1, 1))
    texts = [printed(mixture, number=number) for number in range(4)]
    assert [re.search(r"part (\d)", text).group(1) for text in texts] == ["0", "1", "2", "0"]
    assert texts[0].startswith(
        "mixture: a row of 128 tokens from a vocabulary of 8192, seed 0, part 0 (the last 64 are padding)"
    )
    assert "row 1, part 1\n" in texts[1]
    assert re.search(r" a\d+ +b\d+ +v\d+", texts[2])  # each part in its own words


def test_the_description_has_the_task_the_chance_and_the_tags():
    text = printed(MQAR(pairs=4), width=200)
    assert "Multi-query associative recall: K key-value pairs" in text
    assert "Accuracy counts single answers; chance is 0.25: " in text
    assert "Sliced by: gap, key, pairs." in text
    assert "Accuracy counts whole rows" in printed(Copy())


def test_long_lists_are_cut_and_what_is_only_trained_is_counted():
    task = as_task("mad_recall")
    row, text = task.batch(0, "show", 1), printed(task)
    scored, trained = int(row.scored.sum()), int(row.trained.sum())
    assert f"and {scored - 24} more" in text
    assert f"Another {trained - scored} tokens count in the loss only." in text
    assert f"?^{scored}" in text  # every scored answer is marked in the row
    assert f"^{scored + 1}" not in text


def test_copies_of_a_frequent_token_are_not_marked():
    assert "!" not in printed(as_task("parity"))
    assert "! same tokens as the question" in printed(Position(length=20))
