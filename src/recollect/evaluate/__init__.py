"""How well a finished language model recalls from its context, with no training."""

from recollect.evaluate.models import LanguageModel, open_exported, open_hf
from recollect.evaluate.questions import QUESTIONS
from recollect.evaluate.score import Evaluation, evaluate

__all__ = ["QUESTIONS", "Evaluation", "LanguageModel", "evaluate", "open_exported", "open_hf"]
