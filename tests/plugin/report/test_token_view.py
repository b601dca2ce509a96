"""The token view in a real browser: colours are differences from a class's mean, and groups are a key away.

To take the picture again:
``TOKEN_VIEW_PICTURE=docs/token_view.png pytest tests/plugin/report/test_token_view.py -k picture``.
"""

import base64
import json
import os
import re
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.select import Select

from openrlhf_gtpo.cli import main

from .files import ROLLOUTS, response, run

GROUP = Path(__file__).parents[3] / "docs" / "examples" / "group.jsonl"


def shown(driver: webdriver.Chrome, folder: Path, rollouts: list[dict[str, Any]]) -> None:
    assert main(["report", str(run(folder, rollouts))]) == 0
    driver.get((folder / "report.html").as_uri())


def tokens(driver: webdriver.Chrome) -> list[WebElement]:
    return driver.find_elements(By.CSS_SELECTOR, ".token")


def choose(driver: webdriver.Chrome, what: str) -> None:
    driver.find_element(By.CSS_SELECTOR, f"input[value={what}]").click()


def rgb(token: WebElement) -> tuple[float, ...]:
    """Of a token's ground, each from 0 to 1; Chromium gives color(srgb r g b)."""
    return tuple(map(float, re.findall(r"[\d.]+", token.value_of_css_property("background-color"))))[:3]


def heads(driver: webdriver.Chrome) -> list[str]:
    return [" ".join(box.text.splitlines()[0].split()) for box in driver.find_elements(By.CSS_SELECTOR, ".response")]


def rows(driver: webdriver.Chrome, table: str) -> list[list[str]]:
    found = driver.find_elements(By.CSS_SELECTOR, f"{table} tbody tr")
    return [[cell.text for cell in row.find_elements(By.CSS_SELECTOR, "th, td")] for row in found]


def test_every_token_has_its_numbers_in_a_table_and_the_colour_of_its_entropy(
    driver: webdriver.Chrome, tmp_path: Path
) -> None:
    shown(driver, tmp_path / "a", ROLLOUTS)
    assert heads(driver) == ["✓ correct5 tokens", "✓ correct1 token", "✗ wrong3 tokens"]
    assert len(tokens(driver)) == 9
    assert tokens(driver)[6].text == "<script>alert(1)</script>", "what a model wrote stays text"
    detail = driver.find_element(By.ID, "detail")
    assert not detail.is_displayed()
    driver.execute_script("arguments[0].focus()", tokens(driver)[2])
    assert detail.text.startswith("“7”, token 3 of 5")
    assert rows(driver, "#detail") == [
        # Entropies of the correct tokens are 0, 0.5, 1, 1.5, 2 and 0; advantages 1, 2, 3, 4, 5 and 1.
        ["entropy", "1.00", "0.833", "+0.167"],
        ["shaped reward", "1.00", "1.00", "0"],
        ["advantage", "3.00", "2.67", "+0.333"],
    ]
    choose(driver, "entropy")
    colours = list(map(rgb, tokens(driver)))
    assert colours[0] == colours[5] == colours[6], "no entropy, whatever the class"
    assert len(set(colours)) == 5, "0, 0.5, 1, 1.5 and 2 nats"
    assert driver.get_log("browser") == []


def test_an_advantage_is_coloured_by_its_difference_from_the_mean_of_its_class(
    driver: webdriver.Chrome, tmp_path: Path
) -> None:
    """All correct tokens have about 1 and all wrong ones about -1; what GTPO adds is what is seen."""
    rollouts = [
        response(True, list("abcd"), advantage=[1.0, 1.02, 0.98, 1.0]),
        response(False, list("wxyz"), advantage=[-1.0, -1.3, -0.7, -1.0]),
    ]
    shown(driver, tmp_path / "a", rollouts)
    a, b, c, d, w, x, y, z = map(rgb, tokens(driver))
    assert a == d == w == z, "at the mean of its class a token has the ground's colour, correct or wrong"
    assert b == y, "the farthest above in each class"
    assert c == x, "the farthest below"
    assert b[2] > b[0], "blue"
    assert c[0] > c[2], "orange"
    said = driver.find_element(By.ID, "scale").text.splitlines()
    assert said[0].startswith("correct: mean 1.00; difference −0.0200")
    assert said[0].endswith("+0.0200")
    assert said[1].startswith("wrong: mean −1.00; difference −0.300")


def test_the_view_opens_on_the_group_that_tells_most_and_keeps_the_order_of_the_run(
    driver: webdriver.Chrome, tmp_path: Path
) -> None:
    groups = []
    for number, others in enumerate((["c"], ["d", "e"], ["c"])):
        groups += [response(True, [text], group=number) for text in ("a", "b")]
        groups += [response(False, [text], group=number) for text in others] * 2
    shown(driver, tmp_path / "a", groups)
    select = Select(driver.find_element(By.ID, "group"))
    assert "group 1: 2 of 6 correct" in select.first_selected_option.text
    assert heads(driver)[-1] == "✗ wrong × 21 token", "equal responses are one"
    driver.find_element(By.ID, "next").click()
    assert "group 2" in select.first_selected_option.text
    assert not driver.find_element(By.ID, "previous").get_attribute("disabled")


def test_a_picture_of_a_real_models_group_can_be_taken(driver: webdriver.Chrome, tmp_path: Path) -> None:
    rows = [json.loads(line) for line in GROUP.read_text(encoding="utf-8").splitlines()]
    shown(driver, tmp_path / "smollm2", [{**row, "shaped_reward": None} for row in rows])
    assert "✓ correct × 320 tokens" in heads(driver)
    picture = Path(os.environ.get("TOKEN_VIEW_PICTURE", tmp_path / "view.png"))
    top, bottom = (driver.find_element(By.ID, name).rect for name in ("choice", "responses"))
    height = bottom["y"] + bottom["height"] - top["y"]
    clip = {"x": top["x"] - 16, "y": top["y"] - 8, "width": top["width"] + 32, "height": height + 16, "scale": 1}
    taken = driver.execute_cdp_cmd("Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True})
    picture.write_bytes(base64.b64decode(taken["data"]))
    assert 20_000 < picture.stat().st_size < 200_000
