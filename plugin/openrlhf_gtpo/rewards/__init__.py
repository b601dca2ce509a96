"""The way to a reward service: the client (endpoints, batcher, POST), the two protocols, a probe, and the service that
a run starts itself.

Runs in the rollout actors, in the driver, the doctor and evaluations; imports no torch.
"""
