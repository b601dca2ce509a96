"""Grades math completions against reference answers: a grader (a library) and an HTTP service around it.

Rooms, lowest first: ``grader`` (pure), ``client`` (asks a service), ``pool`` (worker processes), ``page``, ``http``
(the service's process), ``adapters`` (for other trainers) and ``commands``. ``app.py`` puts the service together and
``cli.py`` is ``math-reward``; docs/architecture.md has the map.
"""

import os

# From a file of the package, which is there too where a Ray job ships the folder without an installation.
with open(os.path.join(os.path.dirname(__file__), "VERSION"), encoding="ascii") as _file:
    __version__ = _file.read().strip()
