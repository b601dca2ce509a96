"""The way to a reward service: the client, the two protocols, a probe, and the service that a run starts itself.

Used in the rollout actors, in the driver and by the doctor; imports no torch."""
