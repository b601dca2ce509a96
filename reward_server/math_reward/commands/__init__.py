"""The commands ``math-reward serve``, ``math-reward grade`` and ``launch/reward_on_ray.sh``.

They run in the process that a person started: they read its arguments, and start the service or a pool of workers.
"""
