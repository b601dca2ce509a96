"""Grading in processes that can be killed: queues, lanes and workers.

``worker.py`` runs in the worker processes and ``preload.py`` in their fork server; everything else runs in the process
that asks for grades, which is the service's or that of ``math-reward grade``.
"""
