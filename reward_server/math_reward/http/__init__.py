"""The HTTP service: schemas, routes, middleware, the server below them, and the contents of ``/metrics`` and
``/readyz``.

All of it runs in the event loop of the service's only process, which ``math-reward serve`` or Ray Serve starts.
"""
