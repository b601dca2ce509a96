"""Two instruments that look at one policy and one batch of its rollouts: `openrlhf-gtpo compare`, how far a step along
each estimator's gradient raises the expected reward, and `openrlhf-gtpo credit`, what each token was worth."""

import os

# Read when torch is imported: threads that spin while they wait take twenty times as long beside other programs.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
