"""TASK=docs/examples/counting.py bash launch/quickstart.sh: how many a's are in a word?

Count a in abcaab?       a1
                         b1
                         c1
                         a2
                         a3
                         b3
                         \\boxed{3}
"""

from task import Task, boxed  # of launch/laptop


class Counting(Task):
    name = "counting"
    words = ("user", "assistant", "Count a in ", "\\boxed{")  # one token each; all else is single characters
    layers = 2  # of the policy
    max_length = 96  # tokens of a prompt and its response together
    max_new_tokens = 40  # of the response alone
    warm_start_steps = 400

    def draw(self, rng):
        """A problem: any hashable object whose str() is its text. There have to be 5,000 different ones or more."""
        return "".join(rng.choice("aabc") for _ in range(rng.randint(4, 8)))

    def question(self, expression):
        return f"Count a in {expression}?"

    def answer(self, expression):
        return str(expression.count("a"))

    def worked(self, expression, slip=0.0, rng=None):
        """The response to learn. With probability `slip` it forgets to count an a; without, it has to be right."""
        count, lines = 0, []
        for letter in expression:
            count += letter == "a" and not (rng and rng.random() < slip)
            lines.append(f"{letter}{count}\n")
        return "".join(lines) + boxed(count)

    def demonstration(self, expression, rng):
        """What the policy learns from before training: careless work, so that there is something left to learn."""
        return self.worked(expression, 0.3, rng)


TASK = Counting()
