"""Pure tensor mathematics: imports torch, but not OpenRLHF or vLLM, and runs in any process. Each estimator, which
turns a rollout batch's rewards and entropies into advantages, is a line of `table`."""
