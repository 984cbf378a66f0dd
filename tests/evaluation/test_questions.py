"""What a finished model is asked, as text and as tokens."""

import re

import pytest
import torch

from recollect.evaluation.forms import as_tokens, texts
from recollect.evaluation.questions import QUESTIONS
from recollect.spec import SpecError

EVERY = pytest.mark.parametrize("name", QUESTIONS)


def test_the_phone_book_reads_like_the_papers():
    prompt, answer, tenth = texts("phonebook", QUESTIONS["phonebook"](10, 2), 0, 4)[1]
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
    prompt, answer, _ = texts("copy", QUESTIONS["copy"](5, 1), 0, 1)[0]
    first, again, second = (line.split(": ")[1] for line in prompt.split("\n") if ": " in line)
    assert first == again
    assert answer == " " + second
    assert len(set((first + answer).split())) == 10


def test_the_words_looked_up_stand_once():
    for prompt, answer, _ in texts("ngram", QUESTIONS["ngram"](40, 0), 3, 20):
        text, query = re.fullmatch(r"Text:(.*)\nFind:(.*)\nNext:", prompt).groups()  # pyright: ignore
        assert (text + " ").count(query + " ") == 1
        assert (query + answer + " ") in text + " "
        assert len(set(text.split())) < 20, "single words come again"


def test_associative_recall_asks_for_a_pair_of_the_context():
    for prompt, answer, _ in texts("ar", QUESTIONS["ar"](8, 2), 0, 5):
        *lines, last = prompt.split("\n")
        assert lines.count(last + answer) == 1, "it was not among the examples"


@EVERY
def test_questions_are_decided_by_seed_and_row(name):
    question = QUESTIONS[name](8, 1)
    few, more, other = (as_tokens(name, question, range(500), [], s, n) for s, n in ((0, 3), (0, 6), (1, 3)))
    assert torch.equal(few.tokens, more.tokens[:3])
    assert not torch.equal(few.tokens, other.tokens)
    assert texts(name, question, 0, 3) == texts(name, question, 0, 6)[:3]


@EVERY
def test_answers_are_read_one_token_before_they_stand(name):
    batch = as_tokens(name, QUESTIONS[name](8, 1), range(500), [7], 0, 4)
    assert (batch.tokens[:, 0] == 7).all(), "rows begin as the model's do"
    fed = batch.tokens.gather(1, batch.positions[:, 1:])
    assert torch.equal(fed, batch.answers[:, :-1])
    assert (batch.positions[:, -1] == batch.tokens.shape[1] - 1).all(), "the last answer is not fed"


def test_a_vocabulary_that_is_too_small_is_named_with_the_numbers():
    with pytest.raises(SpecError, match=r"copy at length 16 with 2 shots needs 49 different tokens.* has 30"):
        as_tokens("copy", QUESTIONS["copy"](16, 2), range(30), [], 0, 1)
    with pytest.raises(SpecError, match="needs 66 different words of the kind 'first', and there are 64"):
        texts("phonebook", QUESTIONS["phonebook"](1025, 2), 0, 1)
    with pytest.raises(SpecError, match="3 shots need a length of at least 4, got 3"):
        texts("ar", QUESTIONS["ar"](3, 3), 0, 1)
