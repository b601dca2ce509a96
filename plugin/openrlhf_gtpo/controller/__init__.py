"""The Ray actor of OpenRLHF's trainer: rollout batches become advantages and metrics here."""
