"""Two instruments that look at one policy and one batch of its rollouts: `openrlhf-gtpo compare`, how far a step along
each estimator's gradient raises the expected reward, and `openrlhf-gtpo credit`, what each token was worth."""
