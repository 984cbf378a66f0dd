"""Finished runs to Weights & Biases."""

from recollect.study.sinks.base import Sink, missing
from recollect.train.events import Ended
from recollect.train.spec import RunSpec


class WeightsAndBiases(Sink):
    """One W&B run for each run that has ended, grouped by study. `WANDB_MODE=offline` keeps it on this machine."""

    def __init__(self, project: str, study: str):
        try:
            import wandb
        except ImportError:
            raise missing("wandb") from None
        self._wandb, self._project, self._study = wandb, project, study

    def event(self, cohort: list[RunSpec], event: object) -> None:
        """Hand over a run that ended, with its whole curve."""
        if not isinstance(event, Ended):
            return
        run = event.run
        there = self._wandb.init(
            project=self._project, group=self._study, id=f"{self._study}-{run.id}", resume="allow",
            name=f"{run.model.title} lr={run.train.lr:.3g} seed={run.train.seed}", config=run.model_dump(mode="json"),
            settings=self._wandb.Settings(silent=True, console="off", disable_git=True),
        )  # fmt: skip
        for point in event.curve:
            there.log({name: value for name, value in point.items() if name != "step"}, step=int(point["step"]))
        there.summary.update({f"final/{name}": value for name, value in event.final.items()})
        there.summary.update({"status": event.status, "ended_at": event.step, "parameters": event.parameters})
        there.finish()

    def close(self) -> None:
        """Every run was handed over whole."""
