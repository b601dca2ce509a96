"""Grading in processes that can be killed: queues, lanes and workers.

``worker.py`` runs in the worker processes and ``preload.py`` in their fork server; everything else runs in the process
that asks for grades, which is the service's or that of ``math-reward grade``.

It is our own because the kernel limits the CPU time of each item, so that a busy machine changes no verdict, and
because the items of a worker that died are sent again. Pebble's pool does neither, and takes 1.4 times as long for
ordinary rows (1.1 to 1.5, five pairs, measured at 0f4aeb7).
"""
