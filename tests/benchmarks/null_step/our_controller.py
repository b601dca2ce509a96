"""The product's controller, with its own phases."""

from typing import Any

import openrlhf_gtpo.controller.experience as experience
from null_step import trace
from null_step.controllers import Traced
from openrlhf_gtpo.controller.generator import Generator
from openrlhf_gtpo.controller.trainers import Trainer


class OurTrainer(Traced, Trainer):
    """The product's controller."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        trace.traced(Generator, "generate_samples", "collect")
        trace.traced(experience.ExperienceMaker, "compute_advantages_and_returns", "advantages")
        trace.traced(experience.ExperienceMaker, "_measured", "metrics")
        trace.traced(experience, "save_rollouts", "save rollouts")
        super().__init__(*args, **kwargs)
