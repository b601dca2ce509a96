"""The product's controller, with its own phases."""

from typing import Any

from null_step import trace
from null_step.controllers import Traced
from openrlhf_gtpo.controller.experience import ExperienceMaker
from openrlhf_gtpo.controller.generator import Generator
from openrlhf_gtpo.controller.trainers import Trainer
from openrlhf_gtpo.controller.transformations import Measured, SavedRollouts


class OurTrainer(Traced, Trainer):
    """The product's controller."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        trace.traced(Generator, "generate_samples", "collect")
        trace.traced(ExperienceMaker, "compute_advantages_and_returns", "advantages")
        trace.traced(Measured, "before_updates", "metrics")
        trace.traced(SavedRollouts, "before_updates", "save rollouts")
        super().__init__(*args, **kwargs)
