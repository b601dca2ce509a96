"""Pure tensor mathematics: imports torch, and knows no OpenRLHF, no vLLM and no process. What turns a rollout batch's
rewards and entropies into advantages is a line of `table`."""
