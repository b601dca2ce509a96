"""The Ray actor of an engine: generates with vLLM, collects entropies, asks for rewards. Never imports DeepSpeed."""
