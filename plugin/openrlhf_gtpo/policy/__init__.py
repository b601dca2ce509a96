"""DeepSpeed's ranks: the policy's and the reference's actors, and the loss. They never import vLLM."""
