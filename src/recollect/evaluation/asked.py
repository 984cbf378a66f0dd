"""Every question by the name that `recollect evaluate --task` takes."""

from recollect.evaluation import needles
from recollect.evaluation.questions import Copy, Lookup, PhoneBook, Question, Recall

NEEDLES: dict[str, type[Question]] = {
    "needle_single_1": needles.NeedleInNoise,
    "needle_single_2": needles.Needle,
    "needle_single_3": needles.LongNeedle,
    "needle_multikey": needles.ManyKeys,
    "needle_multivalue": needles.ManyValues,
    "needle_multiquery": needles.ManyQueries,
}
QUESTIONS: dict[str, type[Question]] = {"copy": Copy, "ngram": Lookup, "phonebook": PhoneBook, "ar": Recall, **NEEDLES}
GROUPS = {"needle": list(NEEDLES)}
"""Names for several questions at once."""
