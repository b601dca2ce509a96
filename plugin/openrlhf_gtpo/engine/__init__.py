"""vLLM's worker processes: the entropy hook in its samplers, and OpenRLHF's worker with it."""
