"""The service's page in a real browser: paste, grade, see; and the route behind it.

To take the picture again:
``GRADER_PAGE_PICTURE=docs/grader_page.png pytest tests/reward_server/page/test_page.py -k picture``.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

TOKEN = "the-token-of-the-page"
HALF = {"completion": r"So \boxed{\frac{1}{2}}.", "reference": "0.5"}


@pytest.fixture(scope="module")
def server(serve: Callable[..., Any]) -> Any:
    """A service without a token."""
    return serve("--workers", "1").when_ready()


@pytest.fixture(scope="module")
def guarded(serve: Callable[..., Any]) -> Any:
    """A service with a token."""
    return serve("--workers", "1", MATH_REWARD_TOKEN=TOKEN).when_ready()


class Page:
    """The page as a person sees it."""

    def __init__(self, driver: webdriver.Chrome, url: str) -> None:
        self.driver = driver
        driver.get_log("browser")  # Forgets what earlier tests left.
        driver.get(url)
        driver.execute_script("sessionStorage.clear()")
        driver.refresh()

    def find(self, selector: str) -> Any:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def find_all(self, selector: str) -> list[Any]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def until(self, condition: Callable[[], Any]) -> Any:
        return WebDriverWait(self.driver, 20, poll_frequency=0.05).until(lambda _: condition())

    def fill(self, completion: str, reference: str) -> None:
        for selector, text in (("#completion", completion), ("#reference", reference)):
            self.find(selector).clear()
            self.find(selector).send_keys(text)

    def grade(self, completion: str, reference: str) -> str:
        """Pastes, presses the button and gives the verdict's word."""
        self.fill(completion, reference)
        return self.word_after(self.find("#grade").click)

    def word_after(self, action: Callable[[], None]) -> str:
        # The word of the verdict before must not be taken for this one.
        self.driver.execute_script("document.getElementById('word').textContent = ''")
        action()
        return self.until(lambda: self.find("#word").text)


@pytest.fixture
def page(driver: webdriver.Chrome, server: Any) -> Page:
    return Page(driver, server.url)


def test_a_pasted_completion_is_graded_and_the_page_says_why(page: Page):
    assert page.grade(r"Half is left: \boxed{\frac{1}{2}}.", "0.5") == "Correct"

    assert page.find("#answer-text").text == r"\frac{1}{2}"
    assert page.find("#reference-text").text == "0.5"
    assert page.find("#stage").text == "exact numbers"
    assert page.find("#seconds").text.endswith(" ms")
    assert page.find("#reward").text == "1.0"
    assert page.grade(r"\boxed{x^3}", "x^2") == "Wrong"
    assert "At x = " in page.find("#rule").text


def test_the_options_reach_the_grader(page: Page):
    assert page.grade("The answer is 3.", "3") == "Correct"
    page.find("summary").click()
    page.find("#mode option[value=strict]").click()
    assert page.word_after(page.find("#grade").click) == "No answer"

    page.find("#mode option[value=lenient]").click()
    assert page.grade(r"\boxed{101}", "100") == "Wrong"
    page.find("#rel_tol").clear()
    page.find("#rel_tol").send_keys("0.02")
    assert page.word_after(page.find("#grade").click) == "Correct"
    page.find("#prompt").send_keys(r"Not \boxed{7} or")
    assert page.grade(r"Not \boxed{7} or \boxed{3}", "3") == "Correct"


def test_the_page_says_which_option_would_decide_otherwise(page: Page):
    assert page.grade(r"\boxed{0.333}", "1/3") == "Wrong"
    page.until(lambda: "It would be correct if a rounded answer counts." in page.find("#others").text)
    page.find("summary").click()
    page.find("#allow_rounded").click()
    assert page.word_after(page.find("#grade").click) == "Correct"
    assert page.grade(r"\boxed{\frac{2}{4}}", "0.5") == "Correct"
    assert (
        page.until(lambda: page.find("#others").text)
        == "It would be unevaluated if a number counts in lowest terms only."
    )


EXAMPLES = {
    "A fraction": "Correct",
    "A root": "Correct",
    "An interval": "Correct",
    "A set": "Correct",
    "A matrix": "Correct",
    "A wrong sign": "Wrong",
    "Two guesses": "Ambiguous",
    "No answer": "No answer",
}


def test_each_example_gets_the_verdict_that_its_name_promises(page: Page):
    buttons = page.find_all("#examples button")

    assert {button.text: page.word_after(button.click) for button in buttons} == EXAMPLES


def test_a_hostile_completion_stays_text(page: Page):
    hostile = "<script>window.attacked = 1</script><img src=x onerror='window.attacked = 1'><b>bold</b>"
    elements = "return document.querySelectorAll('script, img, b').length"
    before = page.driver.execute_script(elements)

    page.grade(rf"\boxed{{\text{{{hostile}}}}}", "7")
    assert hostile in page.find("#answer-text").text
    page.grade(r"\boxed{7}", hostile)
    assert page.find("#reference-text").text == hostile

    assert page.driver.execute_script(elements) == before
    assert page.driver.execute_script("return window.attacked") is None


def test_the_keyboard_is_enough(page: Page):
    def press(*keys: str) -> None:
        ActionChains(page.driver).send_keys(*keys).perform()

    page.driver.execute_script("document.body.focus()")
    press(Keys.TAB)
    assert page.driver.switch_to.active_element == page.find("#completion")
    press(r"\boxed{7}", Keys.TAB, "7")
    ctrl_enter = ActionChains(page.driver).key_down(Keys.CONTROL).send_keys(Keys.ENTER).key_up(Keys.CONTROL)
    assert page.word_after(ctrl_enter.perform) == "Correct"

    while page.driver.switch_to.active_element != page.find("#grade"):
        press(Keys.TAB)
        assert page.driver.switch_to.active_element != page.find("body"), "the button was never reached"
    assert page.word_after(lambda: press(Keys.SPACE)) == "Correct"


def test_the_page_needs_nothing_from_elsewhere_and_nothing_goes_wrong_in_it(page: Page, server: Any):
    page.grade(r"\boxed{\sqrt{2}}", r"\sqrt 2")

    urls = page.driver.execute_script("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    assert len(urls) >= 3
    assert all(url.startswith((server.url, "data:")) for url in urls)
    assert [entry for entry in page.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []


def test_the_page_says_so_when_the_service_has_gone(driver: webdriver.Chrome, serve: Callable[..., Any]):
    server = serve("--workers", "1").when_ready()
    page = Page(driver, server.url)
    page.fill(r"\boxed{1}", "1")
    server.process.kill()
    server.process.wait()

    page.find("#grade").click()

    assert "cannot be reached" in page.until(lambda: page.find("#problem").text)


def test_a_service_with_a_token_shows_nothing_until_the_page_has_it(driver: webdriver.Chrome, guarded: Any):
    bearer = {"Authorization": f"Bearer {TOKEN}"}
    assert guarded.client.post("/v1/explain", json=HALF, headers=bearer).status_code == 200
    page = Page(driver, guarded.url)

    page.fill(HALF["completion"], HALF["reference"])
    page.find("#grade").click()
    assert "wants its token" in page.until(lambda: page.find("#problem").text)
    assert not page.find("#outcome").is_displayed()

    page.find("#token").send_keys("wrong", Keys.TAB)
    page.find("#grade").click()
    page.until(lambda: "not accept" in page.find("#problem").text)

    page.find("#token").clear()
    page.find("#token").send_keys(TOKEN, Keys.TAB)
    assert page.word_after(page.find("#grade").click) == "Correct"
    assert not page.find("#problem").is_displayed()

    page.driver.refresh()
    assert page.grade(HALF["completion"], HALF["reference"]) == "Correct"


def test_nothing_is_wider_than_a_phone(page: Page):
    phone = {"width": 360, "height": 740, "deviceScaleFactor": 1, "mobile": True}
    page.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    try:
        assert page.grade(r"\boxed{" + "+".join(f"x_{{{i}}}" for i in range(40)) + "}", "y" * 300) == "Wrong"
        assert page.driver.execute_script("return document.documentElement.scrollWidth") <= 360
    finally:
        page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_picture_of_the_page_can_be_taken(page: Page, tmp_path: Path):
    driver = page.driver
    light = [{"name": "prefers-color-scheme", "value": "light"}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": light})
    page.word_after(page.find_all("#examples button")[5].click)
    driver.execute_script("document.activeElement.blur()")
    picture = Path(os.environ.get("GRADER_PAGE_PICTURE", tmp_path / "page.png"))
    height = driver.execute_script("return Math.ceil(document.body.offsetHeight)")
    viewport = {"width": 1120, "height": height, "deviceScaleFactor": 1.25, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", viewport)
    try:
        driver.save_screenshot(picture)
    finally:
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    assert picture.read_bytes().startswith(b"\x89PNG")
    assert 20_000 < picture.stat().st_size < 200_000


# The route behind the page.


def test_explain_and_grade_say_the_same(server: Any):
    item = {**HALF, "completion": r"\boxed{0.51}", "options": {"rel_tol": 0.05}}
    explained = server.client.post("/v1/explain", json=item).json()
    (graded,) = server.client.post("/v1/grade", json={"items": [item]}).json()["results"]

    same = set(graded) - {"seconds"}
    assert {name: explained[name] for name in same} == {name: graded[name] for name in same}
    assert explained["verdict"] == "correct"


def test_the_page_itself_needs_no_token_and_forbids_everything_from_elsewhere(guarded: Any):
    for path in ("/", "/page.css", "/page.js", "/?from=a-link"):
        response = httpx.get(guarded.url + path)
        assert response.status_code == 200
        policy = response.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'")
        assert "unsafe" not in policy
        assert "http" not in response.text.replace("http://www.w3.org/2000/svg", "")
