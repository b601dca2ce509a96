"""The judge: a model that is asked what mathematics does not decide, whether two answers in words mean the same.

It is asked in the event loop of the service or of a command, never in a worker: what grades has no network.
"""
