"""``.github/workflows/release.yml``: on a tag all is tested before anything is pushed, and nobody has a token."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / ".github" / "workflows"
TEXT = (FOLDER / "release.yml").read_text(encoding="utf-8")
WORKFLOW: dict[Any, Any] = yaml.safe_load(TEXT)
JOBS: dict[str, dict[str, Any]] = WORKFLOW["jobs"]
ON = True
"""What YAML 1.1 makes of the key ``on``."""

PUSHING = {"publish", "images", "site"}
UPLOADS = (r"uses: pypa/gh-action-pypi-publish@", r"release\.sh push ", r"docker push", r"uses: actions/deploy-pages@")


def needed(job: str) -> set[str]:
    """The jobs that end well before this one begins."""
    needs = JOBS[job].get("needs", [])
    direct = {needs} if isinstance(needs, str) else set(needs)
    return direct.union(*(needed(other) for other in direct))


def steps(job: str) -> list[dict[str, Any]]:
    return JOBS[job].get("steps", [])


def commands(job: str) -> list[str]:
    return [step["run"] for step in steps(job) if "run" in step]


def test_it_runs_on_tags_and_on_nothing_else() -> None:
    assert WORKFLOW[ON] == {"push": {"tags": ["v*"]}}


def test_only_the_jobs_named_here_upload() -> None:
    assert {job for job in JOBS if any(re.search(upload, yaml.dump(JOBS[job])) for upload in UPLOADS)} == PUSHING
    assert sum(len(re.findall(upload, TEXT)) for upload in UPLOADS) == len(PUSHING)


@pytest.mark.parametrize("job", sorted(PUSHING))
def test_nothing_is_pushed_before_the_suite_the_check_of_the_tag_and_the_wheels_on_each_python(job: str) -> None:
    assert needed(job) >= {"suite", "build", "try"}
    assert "if" not in JOBS[job], "which could run it after a failure"


def test_the_suite_is_that_of_every_push() -> None:
    assert JOBS["suite"] == {"uses": "./.github/workflows/ci.yml"}
    on = yaml.safe_load((FOLDER / "ci.yml").read_text(encoding="utf-8"))
    assert on[ON] == {"push": {"branches": ["**"]}, "pull_request": None, "workflow_call": None}, "once on a tag"
    assert on["permissions"] == {"contents": "read"}


def test_the_tag_is_compared_with_the_version_before_anything_is_built() -> None:
    asked = commands("build")
    assert asked.index('bash launch/release.sh check "$GITHUB_REF_NAME"') < asked.index("bash launch/release.sh build")


def test_the_wheels_that_are_published_are_the_ones_that_were_tried() -> None:
    uploaded = {
        step["with"]["name"]: step["with"]["path"] for step in steps("build") if "upload-artifact" in yaml.dump(step)
    }
    folder = WORKFLOW["env"]["OUT"]
    assert uploaded == {
        "release": folder,
        "math-reward": f"{folder}/math_reward-*",
        "openrlhf-gtpo": f"{folder}/openrlhf_gtpo-*",
    }
    assert {"name": "release", "path": folder} in [step.get("with") for step in steps("try")]
    fetched, _ = steps("publish")
    assert fetched["with"] == {"name": "${{ matrix.distribution }}", "path": "dist"}
    assert JOBS["publish"]["strategy"]["matrix"]["distribution"] == ["math-reward", "openrlhf-gtpo"]
    assert JOBS["publish"]["strategy"]["max-parallel"] == 1


def test_the_wheels_are_tried_with_each_python_that_is_supported() -> None:
    script = (ROOT / "launch" / "release.sh").read_text(encoding="utf-8")
    pythons = JOBS["try"]["strategy"]["matrix"]["python"]
    assert pythons == re.search(r"^pythons=\((.*)\)$", script, re.M)[1].split() == ["3.10", "3.11", "3.12"]
    assert "bash launch/release.sh try ${{ matrix.python }}" in commands("try")


def test_publishing_is_trusted_and_signed_without_a_token() -> None:
    assert "secrets" not in TEXT.replace("# There is no token", "")
    assert "password:" not in TEXT
    _, upload = steps("publish")
    assert set(upload) == {"uses"}, "by default it signs, and asks for no password"
    assert JOBS["publish"]["environment"] == "${{ matrix.distribution }}", "each project trusts one of its own"
    (login,) = [step for job in JOBS for step in steps(job) if "TOKEN" in yaml.dump(step)]
    assert login["env"] == {"TOKEN": "${{ github.token }}"}
    assert "--password-stdin" in login["run"]
    assert JOBS["images"]["env"]["REGISTRY"] == "${{ vars.REGISTRY }}"


def test_each_job_may_do_what_it_has_to_and_no_more() -> None:
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert {job: JOBS[job]["permissions"] for job in JOBS if "permissions" in JOBS[job]} == {
        "publish": {"id-token": "write"},
        "images": {"contents": "read", "packages": "write"},
        "site": {"pages": "write", "id-token": "write"},
    }
    for job in ("publish", "site"):  # code that could be given the identity: none from the repository or an index
        assert all("uses" in step and "checkout" not in step["uses"] for step in steps(job))
    checkouts = [step for job in JOBS for step in steps(job) if step.get("uses", "").startswith("actions/checkout@")]
    assert len(checkouts) == 3
    assert all(step["with"] == {"persist-credentials": False} for step in checkouts)


def test_every_action_is_pinned_and_of_its_own_host_but_one() -> None:
    used = [step["uses"] for job in JOBS for step in steps(job) if "uses" in step]
    assert all(re.search(r"@(v\d+|release/v\d+|[0-9a-f]{40})$", action) for action in used)
    assert {action for action in used if not action.startswith("actions/")} == {
        "pypa/gh-action-pypi-publish@release/v1"
    }


def test_what_is_run_is_steps_that_can_be_rehearsed() -> None:
    ran = [command for job in JOBS for command in commands(job)]
    others = [command for command in ran if not command.startswith("bash launch/release.sh ")]
    assert [command.split()[:2] for command in others] == [["pip", "install"]] * 2 + [["docker", "login"]]
    known = re.search(r"they are ([\w, ]+) and (\w+);", (ROOT / "launch" / "release.sh").read_text(encoding="utf-8"))
    named = {command.split()[2] for command in ran if command not in others}
    assert named == {*known[1].split(", "), known[2]}


def test_no_owner_is_written_down() -> None:
    assert WORKFLOW["env"]["REPOSITORY_URL"] == "${{ github.server_url }}/${{ github.repository }}"
    (push,) = [command for command in commands("images") if " push " in command]
    assert push.endswith('"$IMAGE" "$REGISTRY/$GITHUB_REPOSITORY"')


STEPS = (
    "there is no step 'publish': they are check, build, try, image, push and site; without one all are made but push."
)
IMAGES = "there is no image 'grader': they are math-reward and openrlhf-gtpo."


@pytest.mark.parametrize(("asked", "sentence"), [("publish", STEPS), ("image grader", IMAGES)])
def test_a_step_or_an_image_that_does_not_exist_is_refused_in_one_sentence(asked: str, sentence: str) -> None:
    done = subprocess.run(["bash", "launch/release.sh", *asked.split()], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"launch/release.sh: {sentence}\n")
