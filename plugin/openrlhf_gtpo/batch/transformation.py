"""What may be done to a rollout batch besides an estimator's work."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from openrlhf.trainer.ppo_utils.experience import Experience

from openrlhf_gtpo.batch.whole_batch import WholeBatch


class Transformation:
    """A change to every rollout batch of a run. A subclass has the methods for the places where it changes something.

    The generator and the experience maker have objects of their own, which need not be in one process.
    """

    changes_groups = False
    """Whether groups may differ in size afterwards. Then OpenRLHF's own estimators cannot be used."""
    needs_correctness = False
    """Whether scores have to be binary."""

    def connect(self, tokenizer: Any, engines: Sequence[Any]) -> None:
        """Before the first batch, when every actor is up.

        Args:
            tokenizer: the policy's, as an argument of remote calls (`openrlhf_gtpo.sent_once`).
            engines: the policy's rollout actors.
        """

    def see(self, experience: Experience, generate_kwargs: Mapping[str, Any]) -> None:
        """During generation: take a response of the policy as it arrives; those to one prompt one after the other."""

    def after_generation(
        self,
        samples: list[Experience],
        waiting: Sequence[Experience],
        experience_of: Callable[[dict[str, Any]], Experience],
    ) -> list[Experience]:
        """Change the responses of a batch.

        Args:
            samples: the policy's, group after group.
            waiting: the policy's that are kept for later batches.
            experience_of: turns a rollout actor's response into an Experience.
        """
        return samples

    def metrics(self) -> dict[str, float]:
        """Metric name -> value, of the batch that was generated last."""
        return {}

    def before_advantages(self, batch: WholeBatch) -> None:
        """Change the batch before an estimator sees it."""

    def before_updates(self, batch: WholeBatch) -> None:
        """Change the advantages, or the micro-batches, before they are sent to the policy."""
