"""Where else curves may go while a study runs."""

from recollect.study.sinks.base import Sink, Sinks, TensorBoard, WeightsAndBiases, open_sinks

__all__ = ["Sink", "Sinks", "TensorBoard", "WeightsAndBiases", "open_sinks"]
