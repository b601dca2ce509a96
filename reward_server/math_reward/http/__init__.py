"""The HTTP service: schemas, routes, middleware, the event loop's parts, and what ``/metrics`` and ``/readyz`` say.

All of it runs in the service's one process, in its event loop; ``math-reward serve`` or Ray Serve starts that process.
"""
