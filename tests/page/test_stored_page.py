"""The page over a stored run, served as `coopbandits dashboard` serves it, in a real browser."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import coopbandits as cb

from .browser import LAYOUT, Browser, problems, text, wait_for

pytestmark = pytest.mark.plays


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A dashboard in a process of its own, over two policies of which one gossips."""
    folder: Path = tmp_path_factory.mktemp("watched")
    cb.simulate(
        cb.BernoulliBandit([0.1, 0.9, 0.2]).named(["tea", "coffee", "<b>milk</b>"]),
        cb.Network.from_spec("grid:3x4"),
        [cb.DDUCB(), cb.IndependentUCB()],
        150,
        keep="watch",
        faults="crash=0.25@50..100",
        engine="reference",
    ).save(folder)
    command = [sys.executable, "-m", "coopbandits", "dashboard", str(folder), "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    found = re.fullmatch(r"the page is at (\S+) \(Ctrl-C ends it\)\n", process.stdout.readline())
    assert found, process.poll()
    yield found[1]
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 0
    process.stdout.close()


def opened(browser: Browser, address: str, **settings: Any) -> Any:
    tab = browser.open(address, **settings)
    wait_for(tab, "#ahead", "is ahead")
    wait_for(tab, "#round", "round 150 of 150")
    return tab


def test_the_end_is_shown_first(browser: Browser, address: str) -> None:
    tab = opened(browser, address)
    assert text(tab, "#title").startswith("grid:3x4, 3 arms, T = 150, seed 0")
    assert "coffee is ahead" in text(tab, "#ahead")
    assert text(tab, "#connection") == "recording"
    names = tab.locator(".panel figcaption button").all_text_contents()
    assert names == ["dducb", "independent-ucb"]
    told = tab.locator(".panel .say").all_text_contents()
    steps = cb.Network.from_spec("grid:3x4").mixing_rounds()
    assert told[0].endswith(f"disagree · stage {-((3 - 150) // steps)}")  # after 3 initial rounds
    assert told[1].endswith("disagree")
    assert f"the first stage of mixing, of {steps} rounds, ends" in text(tab, "#events")
    assert "<b>milk</b>" in text(tab, "#options")
    assert "crash=0.25@50..100 begins" in text(tab, "#events")
    assert tab.locator("canvas").count() == 2 + 4
    assert browser.complaints == []


def test_the_slider_goes_to_any_round(browser: Browser, address: str) -> None:
    tab = opened(browser, address)
    tab.focus("#frame")
    tab.keyboard.press("Home")
    wait_for(tab, "#round", "round 1 of 150")
    assert "1" in text(tab, "#figures")
    tab.keyboard.press("ArrowRight")
    wait_for(tab, "#round", "round 2 of 150")
    assert tab.get_attribute("#frame", "aria-valuetext") == "round 2 of 150"
    assert tab.locator(".state-down").count() == 0
    tab.locator("#frame").fill("75")
    wait_for(tab, "#round", "round 76 of 150")
    tab.wait_for_function("() => document.querySelectorAll('.state-down').length === 3")
    assert browser.complaints == []


def test_play_goes_on_to_the_end(browser: Browser, address: str) -> None:
    tab = opened(browser, address)
    tab.select_option("#speed", "60")
    tab.click("#play")
    wait_for(tab, "#play", "Pause")
    tab.wait_for_function("() => Number(document.querySelector('#frame').value) > 5")
    tab.click("#play")
    wait_for(tab, "#play", "Play")
    stopped = tab.input_value("#frame")
    tab.wait_for_timeout(300)
    assert tab.input_value("#frame") == stopped
    tab.click("#play")
    wait_for(tab, "#round", "round 150 of 150")
    wait_for(tab, "#play", "Play")
    assert browser.complaints == []


def test_a_policy_and_an_agent_are_chosen(browser: Browser, address: str) -> None:
    tab = opened(browser, address)
    wait_for(tab, "#shown", "dducb")
    tab.click("text=independent-ucb")
    wait_for(tab, "#shown", "independent-ucb")
    assert tab.get_attribute("text=independent-ucb", "aria-pressed") == "true"
    canvas = tab.locator(".panel canvas").nth(1)
    canvas.focus()
    tab.keyboard.press("End")
    wait_for(tab, "#shown", "agent agent 11")
    wait_for(tab, "#selected", "2 neighbours")
    share = "#options tbody tr:nth-child(2) td:nth-child(2)"
    tab.wait_for_function(f"() => document.querySelector('{share}').textContent !== '–'")
    tab.keyboard.press("ArrowLeft")
    wait_for(tab, "#shown", "agent agent 10")
    assert browser.complaints == []


@pytest.mark.covering(1)  # the page of a fleet is tried in the other theme
@pytest.mark.parametrize(("theme", "width"), [("light", 1440), ("dark", 390)])
def test_both_themes_at_both_widths(browser: Browser, address: str, theme: str, width: int) -> None:
    tab = opened(browser, address, theme=theme, width=width)
    layout = tab.evaluate(LAYOUT)
    assert layout["overflow"] == 0
    assert layout["dark"] == (theme == "dark")
    assert problems(tab) == []
    assert browser.complaints == []
