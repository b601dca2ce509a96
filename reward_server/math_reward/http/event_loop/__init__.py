"""The server below the application: uvicorn's protocol with limits, idle connections, the schedule of Python's gc.

It runs in the service's process under ``math-reward serve`` alone; under Ray Serve the proxy does this work.
"""
