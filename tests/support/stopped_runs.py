"""Trainings that are stopped at chosen steps, and what their results have in common."""

from hf_albert_plus.training.callbacks import Checkpoints

# Of a run: they say how it went, not what came out.
OF_THE_RUN = {"train_seconds", "tokens_per_second", "resumed_at_step"}


class Stops(Checkpoints):
    """A checkpoint at every step; the process is stopped after the first at or above each of `steps`, in turn."""

    steps: list[int] = []  # noqa: RUF012 (emptied in the test)

    def __init__(self, seconds):
        super().__init__(0)

    def on_save(self, args, state, control, **kwargs):
        super().on_save(args, state, control, **kwargs)
        if self.steps and state.global_step >= self.steps[0]:
            self.steps.pop(0)
            raise KeyboardInterrupt


def outcome(value):
    """A result without what differs between two runs of one thing."""
    if isinstance(value, dict):
        return {name: outcome(part) for name, part in value.items() if name not in OF_THE_RUN}
    return value
