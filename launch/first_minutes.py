"""A user's first minutes with the wheels, in an environment that has them and little else. launch/release.sh runs it:

    python -I launch/first_minutes.py grader|plugin|service|torch

It ends with an error where a wheel does not do what its README promises. The stages need, in this order: math-reward;
openrlhf-gtpo; math-reward[server]; any torch.
"""

import contextlib
import importlib.util
import io
import re
import subprocess
import sys
from importlib.metadata import metadata, version
from pathlib import Path
from types import SimpleNamespace


def command(*words: str) -> subprocess.CompletedProcess[str]:
    """A command of this environment."""
    program, *rest = words
    return subprocess.run([Path(sys.prefix, "bin", program), *rest], capture_output=True, text=True)


def same(found: object, wanted: object) -> None:
    assert found == wanted, f"found {found!r}, wanted {wanted!r}"


def grader() -> None:
    """The first block of the README, and the command."""
    first = re.findall(r"^```python\n(.*?)^```$", metadata("math-reward").get_payload(), re.M | re.S)[0]
    with contextlib.redirect_stdout(io.StringIO()) as said:
        exec(first, {})
    same(said.getvalue(), first.rpartition("# ")[2])
    same(command("math-reward", "--version").stdout, f"math-reward {version('math-reward')}\n")
    for answer, status, verdict in (("42", 0, "correct"), ("41", 1, "wrong")):
        graded = command("math-reward", "grade", rf"so \boxed{{{answer}}}", "42")
        same((graded.returncode, graded.stdout.split()[:2]), (status, ["verdict", verdict]))


def plugin() -> None:
    """Without torch: entropies can be read, and all that needs more says so in one sentence."""
    from openrlhf_gtpo.vllm_entropy import entropies

    same(version("openrlhf-gtpo"), version("math-reward"))
    same(importlib.util.find_spec("torch"), None)
    logprobs = SimpleNamespace(start_indices=[0, 2], token_ids=[5, 0, 7, 0], logprobs=[-0.1, 0.25, -2.0, 1.5])
    same(entropies(SimpleNamespace(token_ids=[5, 7], logprobs=logprobs)), [0.25, 1.5])

    try:
        import openrlhf_gtpo.shaping
    except ModuleNotFoundError as error:
        same("needs torch" in str(error) and "pip install torch" in str(error), True)
    else:
        raise AssertionError(f"{openrlhf_gtpo.shaping} needs no torch")
    for name in ("train", "doctor", "report"):
        refused = command("openrlhf-gtpo", name, *["/nowhere"] * (name == "report"))
        same((refused.returncode in (1, 2), refused.stdout), (True, ""))
        one_sentence = rf"openrlhf-gtpo {name}: error: [^\n]+\.\n"
        same(bool(re.fullmatch(one_sentence, refused.stderr)) or refused.stderr, True)


def service() -> None:
    """The client asks a service."""
    from math_reward.client import Client
    from openrlhf_gtpo.rewards.embedded import start_embedded_service

    with start_embedded_service(workers=1) as started, Client(started.url, token=started.token) as client:
        same([client.grade(rf"\boxed{{{answer}}}", "0.5").reward for answer in (r"\frac12", "2")], [1.0, 0.0])


def torch() -> None:
    """One token a response: correct with 1 and 3 nats, wrong with 2. Eq. 3, 5 and 6 by hand."""
    import torch

    from openrlhf_gtpo.shaping import gtpo

    shaped = gtpo(
        torch.tensor([[1.0], [3.0], [2.0]]), torch.ones(3, 1), torch.tensor([True, True, False]), torch.tensor([0] * 3)
    )
    rewards = torch.tensor([1 + 0.1 * 2 * 1 / 4, 1 + 0.1 * 2 * 3 / 4, -(1 + 0.1)])
    same(torch.allclose(shaped.rewards[:, 0], rewards), True)
    # Mean and standard deviation of (1.05, 1.15, 0) for the correct ones, of (0, 0, -1.1) for the wrong one.
    advantages = torch.tensor([(1.05 - 2.2 / 3) / 0.5201496, (1.15 - 2.2 / 3) / 0.5201496, -(2**0.5)])
    same(torch.allclose(shaped.advantages[:, 0], advantages, atol=1e-5), True)


if __name__ == "__main__":
    {stage.__name__: stage for stage in (grader, plugin, service, torch)}[sys.argv[1]]()
