"""How well a finished language model recalls from its context, with no training."""

from recollect.evaluation.asked import QUESTIONS
from recollect.evaluation.models import LanguageModel, open_exported, open_hf
from recollect.evaluation.score import Evaluation, evaluate

__all__ = ["QUESTIONS", "Evaluation", "LanguageModel", "evaluate", "open_exported", "open_hf"]
