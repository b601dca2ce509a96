"""Grades math completions against reference answers: a grader (a library) and an HTTP service around it.

Rooms, lowest first: ``grader`` (pure), ``client`` (asks a service), ``pool`` (worker processes), ``page``, ``http``
(the service's process), ``adapters`` (for other trainers) and ``commands``. ``app.py`` puts the service together and
``cli.py`` is ``math-reward``; docs/architecture.md has the map.
"""

__version__ = "0.1.0"
