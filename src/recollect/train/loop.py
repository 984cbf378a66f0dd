"""The training loop: step, measure, remove the runs that end.

A cohort yields a snapshot of itself every minute, less often where that would take more than a twentieth of the time, and one
when it is stopped; training can continue from it.
"""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import closing

import safetensors.torch
import torch

from recollect.train.checkpoint import EVERY, SHARE, restore, snapshot
from recollect.train.cohort import Cohort
from recollect.train.events import Ended, Ending, Event, Measured, Saved
from recollect.train.hopeless import hopeless
from recollect.train.measure import EvaluationRows, Measures
from recollect.train.spec import RunSpec
from recollect.train.speed.ahead import Compilation


def train(
    runs: list[RunSpec],
    device: str | torch.device = "cpu",
    saved: bytes | None = None,
    every: float = EVERY,
    weights: bool = False,
    stop: Callable[[], bool] = lambda: False,
) -> Iterator[Event]:
    """Train runs of one shape together, from the start or from a snapshot with all of them in it.

    Yields a note at each measurement, each run's result when it ends (with trained weights where `weights` is set), a snapshot
    after every `every` seconds (0: after each step), and one as soon as `stop`, which is called after each step, returns True.
    """
    cohort = Cohort(runs, torch.device(device))
    done = restore(cohort, saved) if saved else 0
    spec, members = cohort.spec, cohort.members
    since = time.monotonic()
    due = since + every
    with closing(Compilation(cohort)) as compilation:
        for step in range(done, spec.total_steps):
            compilation.before_step(spec.total_steps - step)
            cohort.advance(step)
            cohort.records.album.take(members.evaluated, step + 1)

            last = step + 1 == spec.total_steps
            if last or (step + 1) % spec.cadence == 0:
                accuracy = measured(cohort, step + 1)
                step_seconds = (time.monotonic() - since) / spec.cadence
                endings = endings_of(cohort, accuracy, last)
                ids = [run.id for run in cohort.runs]
                points = {id: curve[-1] for id, curve in zip(ids, cohort.records.curves, strict=True)}
                by_run = dict(zip(ids, accuracy, strict=True))
                yield Measured(step + 1, spec.total_steps, by_run, len(endings), points, compilation.full_speed)
                yield from results(cohort, endings, step + 1, weights)
                stay = [i for i in range(len(cohort)) if i not in endings]
                cohort.keep(stay, compiled_anew=False)
                if not stay:
                    return
                compilation.members_left(step_seconds, spec.total_steps - step - 1)
                since = time.monotonic()
            if (now := time.monotonic()) >= due or stop():
                yield Saved(step + 1, snapshot(cohort, step + 1))
                spent = time.monotonic() - now  # also by whoever writes it: the loop goes on when that is done
                due = now + spent + (max(every, spent / SHARE) if every else 0.0)


def measured(cohort: Cohort, step: int) -> list[float]:
    """Measure every member on validation rows, add a point to each curve, and return the headline accuracies."""
    spec, records = cohort.spec, cohort.records
    measures = cohort.measures(cohort.validation, range(len(cohort)), sliced=spec.slices == "always")
    accuracy = measures.accuracy(cohort.validation.task).tolist()
    count, loss, hits, norm = cohort.members.sums[: len(cohort)].T
    columns = {
        "train_loss": loss / count, "train_accuracy": hits / count, "grad_norm": norm / count,
        "test_loss": measures.loss, "test_answers": measures.answers, "test_rows": measures.rows,
        **cohort.model.measures(cohort.members.evaluated()),
    }  # fmt: skip
    values = {name: column.tolist() for name, column in columns.items()}
    factor = spec.rate_factor(step - 1)
    for i, run in enumerate(cohort.runs):
        point = {"step": step, "examples": step * spec.batch, "lr": run.train.lr * factor, "accuracy": accuracy[i]}
        records.curves[i].append(point | {name: column[i] for name, column in values.items()})
        records.slices[i] += _slice_records(measures, i, step)
    cohort.members.sums.zero_()
    records.charge()
    return accuracy


def endings_of(cohort: Cohort, accuracy: list[float], last: bool) -> dict[int, Ending]:
    """Which members end here, and why."""
    endings: dict[int, Ending] = {}
    for i, run in enumerate(cohort.runs):
        loss = cohort.records.curves[i][-1]["train_loss"]
        if not math.isfinite(loss) or loss > run.train.max_loss:
            endings[i] = "diverged"
        elif run.train.stop_at and accuracy[i] >= run.train.stop_at:
            endings[i] = "solved"
        elif last:
            endings[i] = "finished"
        elif hopeless(run.train, cohort.records.curves[i]):
            endings[i] = "hopeless"
    return endings


def results(cohort: Cohort, endings: dict[int, Ending], step: int, weights: bool) -> Iterator[Ended]:
    """The results of the members that end here, measured on all test rows and all further tests."""
    if not endings:
        return
    records, ending = cohort.records, list(endings)
    finals: list[dict[str, float]] = [{"valid": records.curves[i][-1]["accuracy"]} for i in ending]
    for number, task in enumerate(cohort.runs[0].all_tests):
        rows = EvaluationRows(task, cohort.members.seeds, "test", cohort.spec.test_rows)
        measures = cohort.measures(rows, ending, sliced=True)
        prefix = f"tests.{number - 1}." if number else ""
        columns = {
            "loss": measures.loss, "accuracy": measures.accuracy(task), "answers": measures.answers, "rows": measures.rows,
        }  # fmt: skip
        values = {prefix + name: column.tolist() for name, column in columns.items()}
        for row, i in enumerate(ending):
            finals[row] |= {name: column[row] for name, column in values.items()}
            records.slices[i] += _slice_records(measures, row, step, prefix)
    records.charge()
    params = cohort.members.evaluated()
    for final, (i, status) in zip(finals, endings.items(), strict=True):
        yield Ended(
            cohort.runs[i], status, step, final, records.curves[i], _last_only(records.slices[i]), records.seconds[i],
            parameters=cohort.parameter_count, state_size=cohort.state_size, notes=list(records.notes),
            weights=safetensors.torch.save({name: p[i].cpu().contiguous() for name, p in params.items()}) if weights else None,
            snapshots=records.album.kept(params, step, i),
        )  # fmt: skip


def _slice_records(measures: Measures, member: int, step: int, prefix: str = "") -> list[dict]:
    records = []
    for tag, (counted, right) in measures.slices.items():
        values = counted[member].nonzero()[:, 0].tolist()
        records.append(
            {"step": step, "tag": prefix + tag, "values": values,
             "counts": counted[member][values].tolist(), "right": right[member][values].tolist()}
        )  # fmt: skip
    return records


def _last_only(slices: list[dict]) -> list[dict]:
    """One record per step and tag: where a step was measured twice, the one on all test rows."""
    return list({(record["step"], record["tag"]): record for record in slices}.values())
