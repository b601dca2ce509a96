"""The middleware between a connection and a route: token, limits, request throttle, telemetry, reading the body.

It runs in the service's process, once for each request.
"""
