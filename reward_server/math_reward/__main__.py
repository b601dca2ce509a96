"""``python -m math_reward`` is ``math-reward``."""

from math_reward.cli import main

if __name__ == "__main__":
    main()
