"""What a finished model is asked, as text and as tokens."""

import re

import pytest
import torch

from recollect.evaluation.asked import NEEDLES, QUESTIONS
from recollect.evaluation.forms import as_text, as_tokens, texts
from recollect.spec import SpecError

EVERY = pytest.mark.parametrize("name", QUESTIONS)


def test_the_phone_book_reads_like_the_papers():
    ((prompt, answer, tenth),) = texts("phonebook", QUESTIONS["phonebook"](10, 2), 0, 4)[1]
    lines = re.findall(r"^(\w+ \w+): (\d{3}-\d{3}-\d{4})$", prompt, re.MULTILINE)
    book = dict(lines)
    assert len(lines) == len(book) == 10
    solved = re.findall(r"Person: (\w+ \w+)\nNumber: (\S+)", prompt)
    assert len(solved) == 2, "two examples, from the same book"
    assert all(book[person] == number for person, number in solved)
    asked = re.fullmatch(r"(?s).*Person: (\w+ \w+)\nNumber:", prompt)
    assert asked
    assert asked[1] not in dict(solved)
    assert answer == " " + book[asked[1]]
    assert tenth == list(book).index(asked[1])


def test_copies_are_of_different_words_and_follow_their_examples():
    ((prompt, answer, _),) = texts("copy", QUESTIONS["copy"](5, 1), 0, 1)[0]
    first, again, second = (line.split(": ")[1] for line in prompt.split("\n") if ": " in line)
    assert first == again
    assert answer == " " + second
    assert len(set((first + answer).split())) == 10


def test_the_words_looked_up_occur_once():
    for ((prompt, answer, _),) in texts("ngram", QUESTIONS["ngram"](40, 0), 3, 20):
        text, query = re.fullmatch(r"Text:(.*)\nFind:(.*)\nNext:", prompt).groups()  # pyright: ignore
        assert (text + " ").count(query + " ") == 1
        assert (query + answer + " ") in text + " "
        assert len(set(text.split())) < 20, "single words come again"


def test_associative_recall_asks_for_a_pair_of_the_context():
    for ((prompt, answer, _),) in texts("ar", QUESTIONS["ar"](8, 2), 0, 5):
        *lines, last = prompt.split("\n")
        assert lines.count(last + answer) == 1, "it was not among the examples"


FACT = re.compile(r" The number of (\w+) is (\d{7}|(?:[0-9a-f]{4}-){7}[0-9a-f]{4})\.")


@pytest.mark.parametrize("name", NEEDLES)
def test_a_needle_is_a_fact_of_the_haystack(name):
    keys, values, asked = {"multikey": (4, 1, 1), "multivalue": (1, 4, 1), "multiquery": (4, 1, 4)}.get(
        name.removeprefix("needle_"), (1, 1, 1)
    )
    depths = set()
    for row in texts(name, QUESTIONS[name](50, 0), 0, 40):
        haystack = row[0][0].partition("\nAs the text says")[0]
        facts = FACT.findall(haystack)
        assert len({key for key, _ in facts}) == keys
        assert len(facts) == len({value for _, value in facts}) == keys * values
        filler = FACT.sub("", haystack.partition("\n")[2]).split()
        assert len(filler) == 50
        assert (" ".join(filler).startswith("The tide comes in")) == (name == "needle_single_1")
        assert len(row) == asked * values
        answers, key = dict[str, list[str]](), ""
        for prompt, answer, tenth in row:
            key = prompt.rsplit(" ", 2)[1] if prompt else key
            answers.setdefault(key, []).append(answer.strip())
            before = haystack.partition("\n")[2].partition(f" The number of {key} is{answer}.")[0]
            assert tenth == min(9, len(FACT.sub("", before).split()) // 5)
            depths.add(tenth)
        for key, found in answers.items():
            assert found == [value for own, value in facts if own == key], "in the order of the text"
    assert len(depths) > 5


class ByLetter:
    """A tokenizer whose every letter is a token."""

    unk_token_id = None

    def __call__(self, text: str, add_special_tokens: bool) -> dict[str, list[int]]:
        return {"input_ids": [ord(letter) for letter in text]}


def test_several_questions_of_a_row_are_read_where_they_are_in_the_text():
    question = QUESTIONS["needle_multiquery"](20, 0)
    batch = as_text("needle", question, ByLetter(), [1], 0, 3)
    for i, row in enumerate(texts("needle", question, 0, 3)):
        whole = "".join(prompt + answer for prompt, answer, _ in row)
        assert "".join(map(chr, batch.answers[i].tolist())) == "".join(answer for _, answer, _ in row)
        assert [whole[p] for p in batch.positions[i].tolist()] == [chr(a) for a in batch.answers[i].tolist()]
        assert batch.tags["tenth"][i, ::8].tolist() == [tenth for *_, tenth in row]


@EVERY
def test_questions_are_decided_by_seed_and_row(name):
    question = QUESTIONS[name](8, 1)
    few, more, other = (as_tokens(name, question, range(500), [], s, n) for s, n in ((0, 3), (0, 6), (1, 3)))
    assert torch.equal(few.tokens, more.tokens[:3])
    assert not torch.equal(few.tokens, other.tokens)
    assert texts(name, question, 0, 3) == texts(name, question, 0, 6)[:3]


@EVERY
def test_answers_are_predicted_from_the_token_before(name):
    batch = as_tokens(name, QUESTIONS[name](8, 1), range(500), [7], 0, 4)
    assert (batch.tokens[:, 0] == 7).all(), "rows begin as the model's do"
    fed, following = batch.tokens.gather(1, batch.positions[:, 1:]), batch.positions.diff() == 1
    assert torch.equal(fed[following], batch.answers[:, :-1][following])
    assert (batch.positions[:, -1] == batch.tokens.shape[1] - 1).all(), "the last answer is not fed"


def test_a_vocabulary_that_is_too_small_is_named_with_the_numbers():
    with pytest.raises(SpecError, match=r"copy at length 16 with 2 shots needs 49 different tokens.* has 30"):
        as_tokens("copy", QUESTIONS["copy"](16, 2), range(30), [], 0, 1)
    with pytest.raises(SpecError, match="needs 66 different words of the kind 'first', and there are 64"):
        texts("phonebook", QUESTIONS["phonebook"](1025, 2), 0, 1)
    with pytest.raises(SpecError, match="3 shots need a length of at least 4, got 3"):
        texts("ar", QUESTIONS["ar"](3, 3), 0, 1)
