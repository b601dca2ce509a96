"""Every test runs on the CPU platform: its environment is set before anything heavy is imported."""

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from openrlhf_gtpo.cpu.platform import STUBS, environment

os.environ.update(environment())
if str(STUBS) in os.environ["PYTHONPATH"] and str(STUBS) not in sys.path:
    sys.path.insert(0, str(STUBS))


@pytest.fixture(scope="module", autouse=True)
def environment_stays() -> Iterator[None]:
    """What a module leaves in the environment ends with the module: vLLM sets LD_PRELOAD where it is used."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Qwen2 of 512 tokens, of which 1 is the end."""
    from .small_models import small_qwen2

    folder = tmp_path_factory.mktemp("tiny_model")
    small_qwen2(eos_token_id=1, bos_token_id=None).save_pretrained(folder)
    return folder


LONGEST_FIRST = [
    "ray_serve",
    "training",
    "documented_commands",
    "modes",
    "doctor",
    "cluster",
    "faults",
]
"""Files with engines; where two workers take file after file, they end together. The first needs no policy, which the
other worker trains meanwhile."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order what takes minutes. Engines take as long to start as the machine is slow: only a hang takes a quarter of
    an hour."""
    places = {f"test_{name}": place for place, name in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: places.get(item.path.stem, len(places)))
    for item in items:
        if item.get_closest_marker("engine") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(900))


# A property is not about speed, and a busy machine is slow now and then.
hypothesis.settings.register_profile("without a deadline", deadline=None)
hypothesis.settings.load_profile("without a deadline")


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    """Chromium without a window, which can reach 127.0.0.1 and nothing else: a selenium.webdriver.Chrome."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    chromedriver = shutil.which("chromedriver")
    if chromium is None or chromedriver is None:
        pytest.skip("The pages are tested in Chromium: install chromium and chromium-driver.")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for argument in (
        "--headless=new",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
        "--window-size=1200,1000",
    ):
        options.add_argument(argument)
    if os.geteuid() == 0:
        options.add_argument("--no-sandbox")  # Chromium's sandbox refuses to be run by root.
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(chromedriver))
    yield driver
    driver.quit()
