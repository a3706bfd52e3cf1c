"""The page over a fleet that is made up, in a real browser."""

from __future__ import annotations

import json
import time
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .browser import LAYOUT, Browser, problems, text, wait_for
from .stage import MadeUpFleet, PageServer, serving

pytestmark = pytest.mark.plays

HOSTILE = "<script>window.hacked=1</script><img src=x onerror='window.hacked=1'>"
BACKWARDS = "\u202e\u2066evil\u200f"
LONG = "y" * 10_000


@pytest.fixture
def fleet() -> MadeUpFleet:
    return MadeUpFleet()


@pytest.fixture
def server(fleet: MadeUpFleet) -> Iterator[PageServer]:
    with serving(PageServer(fleet.events)) as server:
        yield server


def opened(browser: Browser, server: PageServer, **settings: Any) -> Any:
    """Return a tab that shows the first numbers."""
    tab = browser.open(server.address, **settings)
    wait_for(tab, "#connection", "live")
    wait_for(tab, "#figures", "of")
    return tab


def test_a_fleet_is_seen_at_a_glance(
    browser: Browser, fleet: MadeUpFleet, server: PageServer
) -> None:
    fleet.down = {2}
    tab = opened(browser, server)
    assert text(tab, "#title") == "shop"
    assert "red button is ahead" in text(tab, "#ahead")
    wait_for(tab, "#figures", "7 of 8")
    rows = tab.locator("#agent-table tbody tr").all_text_contents()
    assert len(rows) == 8
    assert "connection refused" in rows[2]
    assert all("up" in row for row in rows[:2] + rows[3:])
    options = tab.locator("#options tbody tr").all_text_contents()
    assert [row[1:].split(" button")[0] for row in options] == ["blue", "red", "green", "grey"]
    assert "shop-3 does not answer" in text(tab, "#events")
    assert tab.locator("#charts canvas").count() == 4
    assert tab.locator("#player").is_hidden()
    assert tab.locator("#bandits").is_hidden()
    assert browser.complaints == []


def test_agents_that_die_and_return_are_shown_at_once(
    browser: Browser, fleet: MadeUpFleet, server: PageServer
) -> None:
    tab = opened(browser, server)
    wait_for(tab, "#figures", "8 of 8")
    for down, shown in (({5}, "7 of 8"), (set(), "8 of 8")):
        fleet.down = down
        wait_for(tab, "#figures", shown)
    fleet.extra_events.append(
        {"seq": 9, "t": time.time(), "kind": "restarted", "agent": 5, "text": "shop-6 came back"}
    )
    wait_for(tab, "#events", "shop-6 came back")


def test_agents_that_do_not_answer_are_named_on_top(
    browser: Browser, fleet: MadeUpFleet, server: PageServer
) -> None:
    tab = opened(browser, server)
    assert tab.locator("#down").is_hidden()
    fleet.down = {2, 4}
    wait_for(tab, "#down", "Not answering: shop-3, shop-5")
    fleet.down = set(range(8))
    wait_for(tab, "#down", "shop-5 and 3 more")
    fleet.down = set()
    tab.wait_for_selector("#down", state="hidden")


def test_events_are_listed_by_time(
    browser: Browser, fleet: MadeUpFleet, server: PageServer
) -> None:
    """Agents are asked one after the other, so the older of two events may arrive later."""
    now = time.time()
    fleet.extra_events = [
        {"seq": seq, "t": now - ago, "kind": "link-up", "agent": 5, "text": f"{ago} s ago"}
        for seq, ago in ((10, 1), (11, 3), (12, 2))
    ]
    tab = opened(browser, server)
    wait_for(tab, "#events", "2 s ago")
    listed = tab.locator("#events li span").all_text_contents()
    assert [each[-7:] for each in listed[:3]] == ["1 s ago", "2 s ago", "3 s ago"]


CUT_OFF = """() => [...document.querySelectorAll("main .scroll")]
  .filter((each) => each.scrollWidth > each.clientWidth).map((each) => each.innerText)"""


@pytest.mark.covering(1)
@pytest.mark.parametrize("width", [1280, 1600])
def test_no_column_is_cut_off(browser: Browser, fleet: MadeUpFleet, width: int) -> None:
    fleet.names = [f"checkout-frontend-{n}.shop.example.net" for n in range(8)]
    fleet.arms = [f"a rather long name of option {n}" for n in range(4)]
    fleet.down = {1, 3}
    with serving(PageServer(fleet.events)) as server:
        tab = opened(browser, server, width=width)
        wait_for(tab, "#figures", "6 of 8")
        assert tab.evaluate(CUT_OFF) == []


def test_an_agent_is_chosen_by_keyboard_and_by_click(browser: Browser, server: PageServer) -> None:
    tab = opened(browser, server)
    tab.focus("canvas")
    tab.keyboard.press("Home")
    wait_for(tab, "#selected", "shop-1 (tree-ts) prefers")
    wait_for(tab, "#shown", "agent shop-1")
    tab.keyboard.press("ArrowRight")
    wait_for(tab, "#selected", "shop-2 ")
    assert tab.locator("tr.chosen").text_content().startswith("shop-2")
    tab.keyboard.press("Escape")
    wait_for(tab, "#shown", "all agents")
    tab.click("#agent-table tbody tr:nth-child(4) button")
    wait_for(tab, "#shown", "agent shop-4")
    tab.click("#everyone")
    wait_for(tab, "#shown", "all agents")
    box = tab.locator("canvas").first.bounding_box()
    tab.mouse.click(box["x"] + box["width"] / 2, box["y"] + 26)  # the first agent is on top
    wait_for(tab, "#shown", "agent shop-1")
    assert browser.complaints == []


def test_the_table_sorts_and_finds(browser: Browser, server: PageServer) -> None:
    tab = opened(browser, server)
    first = "#agent-table tbody tr:first-child"
    tab.click("th button:text('Agent')")
    wait_for(tab, first, "shop-8")
    assert tab.get_attribute("#agent-table th:first-child", "aria-sort") == "descending"
    tab.fill("#find", "SHOP-4")
    wait_for(tab, "#page-of", "1 agents")
    wait_for(tab, first, "shop-4")


def test_a_fleet_of_mixed_versions_is_marked(
    browser: Browser, fleet: MadeUpFleet, server: PageServer
) -> None:
    tab = opened(browser, server)
    wait_for(tab, "#figures", "version0.2.0")
    assert "mixed" not in text(tab, "#figures")
    fleet.versions = ["0.2.0", "0.3.0", ""]
    wait_for(tab, "#figures", "mixed versionsunknown, 0.2.0, 0.3.0")
    rows = tab.locator("#agent-table tbody tr").all_text_contents()
    assert ["0.3.0" in row for row in rows[:3]] == [False, True, False]
    tab.click("th button:text('Version')")  # to find those that are behind
    wait_for(tab, "#agent-table tbody tr:last-child", "unknown")


def test_hostile_texts_are_texts(browser: Browser, fleet: MadeUpFleet, server: PageServer) -> None:
    fleet.names[:3] = [HOSTILE, BACKWARDS, LONG]
    fleet.arms[:3] = [HOSTILE + "0", HOSTILE + "1", LONG]
    told = {"seq": 7, "t": time.time(), "kind": HOSTILE, "agent": 1, "text": HOSTILE + LONG}
    for width in (1280, 390):
        fleet.extra_events = [told]
        tab = opened(browser, server, width=width)
        wait_for(tab, "#events", HOSTILE)
        assert HOSTILE in text(tab, "#agent-table")
        assert HOSTILE + "1 is ahead" in text(tab, "#ahead")
        tab.click("#agent-table tbody tr:nth-child(2) button")
        wait_for(tab, "#selected", " prefers ")
        assert tab.evaluate("window.hacked") is None
        assert tab.locator("main script, main img").count() == 0
        assert tab.evaluate(LAYOUT)["overflow"] == 0
        assert tab.locator("#agent-table .name").first.bounding_box()["width"] < 400
    assert browser.complaints == []


@pytest.mark.covering(1)  # the page of a stored run is tried in the other theme
@pytest.mark.parametrize(("theme", "width"), [("dark", 390), ("light", 1280)])
def test_both_themes_at_both_widths(
    browser: Browser, server: PageServer, theme: str, width: int
) -> None:
    tab = opened(browser, server, theme=theme, width=width)
    layout = tab.evaluate(LAYOUT)
    assert layout["overflow"] == 0
    assert layout["contrast"] > 7
    assert layout["dark"] == (theme == "dark")
    assert problems(tab) == []
    assert browser.complaints == []


def test_the_theme_can_be_chosen_and_is_remembered(browser: Browser, server: PageServer) -> None:
    tab = opened(browser, server)
    for name, dark in (("light", False), ("dark", True)):
        tab.click("#theme")
        wait_for(tab, "#theme", name)
        assert tab.evaluate(LAYOUT)["dark"] == dark
    tab.reload()
    wait_for(tab, "#connection", "live")
    assert tab.evaluate(LAYOUT)["dark"]


def test_silence_and_absence_are_told(
    browser: Browser, fleet: MadeUpFleet, server: PageServer
) -> None:
    tab = opened(browser, server)
    fleet.silent.set()
    wait_for(tab, "#connection", "no news for")
    fleet.silent.clear()
    wait_for(tab, "#connection", "live")


def test_the_page_comes_back_when_its_server_does(browser: Browser, fleet: MadeUpFleet) -> None:
    with serving(PageServer(fleet.events)) as server:
        tab = opened(browser, server)
        port = server.server_port
        tab.click("#agent-table tbody tr:nth-child(4) button")
    wait_for(tab, "#connection", "no connection")
    assert "red button is ahead" in text(tab, "#ahead")  # the last that was known stays
    fleet.names.append("shop-9")
    with serving(PageServer(fleet.events, port=port)):
        wait_for(tab, "#connection", "live")
        wait_for(tab, "#figures", "9 of 9")
        wait_for(tab, "#shown", "agent shop-4")
    refused = [line for line in browser.complaints if "ERR_" not in line]
    assert refused == []


def test_why_there_is_no_stream_is_told(browser: Browser, server: PageServer) -> None:
    server.refusal = "16 streams are open, and no more may be; close a page that watches"
    tab = browser.open(server.address)
    wait_for(tab, "#ahead", server.refusal)
    server.refusal = ""
    wait_for(tab, "#connection", "live")
    wait_for(tab, "#ahead", "red button is ahead")


def test_a_token_is_asked_for_and_stays_here(browser: Browser, fleet: MadeUpFleet) -> None:
    with serving(PageServer(fleet.events, token="open sesame")) as server:
        tab = browser.open(server.address)
        for word, shown in (("wrong", "a token is needed"), ("open sesame", "live")):
            tab.wait_for_selector("#ask[open]")
            tab.fill("#token", word)
            tab.click("#ask button")
            wait_for(tab, "#connection", shown)
        tab = browser.open(f"{server.address}#token=open%20sesame")
        wait_for(tab, "#connection", "live")
        assert tab.url == server.address
        assert not [path for path in server.asked if "sesame" in path]


def test_the_policy_of_content_is_in_force(browser: Browser, server: PageServer) -> None:
    tab = opened(browser, server)
    tab.evaluate("""() => {
      window.broken = [];
      document.addEventListener("securitypolicyviolation", e => broken.push(e.effectiveDirective));
      const script = document.createElement("script");
      script.textContent = "window.hacked = 1";
      document.head.append(script);
      document.body.append(Object.assign(new Image(), {src: "http://elsewhere.invalid/a.png"}));
      fetch("http://elsewhere.invalid/").catch(() => {});
    }""")
    tab.wait_for_function("() => window.broken.length >= 3")
    assert set(tab.evaluate("window.broken")) == {"script-src-elem", "img-src", "connect-src"}
    assert tab.evaluate("window.hacked") is None
    assert not [line for line in browser.complaints if line.startswith("asks for")]


def test_of_many_options_seven_have_a_colour(browser: Browser) -> None:
    fleet = MadeUpFleet(arms=200)
    with serving(PageServer(fleet.events)) as server:
        tab = opened(browser, server, width=390)
        legend = tab.locator("#legend li").all_text_contents()
        assert len(legend) == 8
        assert legend[-1] == "·others"
        assert "and 160 others" in text(tab, "#options")
        assert tab.evaluate(LAYOUT)["overflow"] == 0
    assert [line for line in browser.complaints if "ERR_" not in line] == []


def test_two_hundred_agents_are_kept_up_with(browser: Browser) -> None:
    fleet = MadeUpFleet(agents=200)
    with serving(PageServer(fleet.events)) as server:
        tab = opened(browser, server)
        assert "200 agents, page 1 of 8" in text(tab, "#page-of")
        rounds = "#agent-table tbody tr:first-child td:nth-child(4)"
        before = int(text(tab, rounds).replace(" ", ""))
        tab.wait_for_function(
            "([cell, before]) => "
            "Number(document.querySelector(cell).textContent.replaceAll(' ', '')) > before + 8",
            arg=[rounds, before],
        )
    assert [line for line in browser.complaints if "ERR_" not in line] == []


def test_pictures_show_what_the_page_shows(
    browser: Browser, fleet: MadeUpFleet, server: PageServer, tmp_path: Path
) -> None:
    fleet.arms[1] = HOSTILE
    fleet.down = {2}
    tab = opened(browser, server)
    for ending in ("svg", "png"):
        with tab.expect_download() as download:
            tab.click(f"#save-{ending}")
        download.value.save_as(tmp_path / f"picture.{ending}")
    drawn = ET.fromstring((tmp_path / "picture.svg").read_text())  # noqa: S314  ours
    tags = [element.tag.rpartition("}")[2] for element in drawn.iter()]
    assert tags.count("circle") == 8
    assert tags.count("line") == 8
    assert "script" not in tags
    assert tags.count("polyline") == 4 + 4 + 1 + 1
    assert "is ahead" in "".join(drawn.itertext())
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    assert browser.complaints == []


def test_what_is_no_event_of_ours_does_no_harm(browser: Browser, fleet: MadeUpFleet) -> None:
    """Deltas on agents that nobody announced, and kinds that a later version may send."""

    def events() -> Any:
        yield "delta", {"agents": {"0": {"arm": 1}}}
        yield "novel", {"anything": [1, 2, 3]}
        yield "scene", fleet.scene()
        yield "delta", {"t": time.time(), "agents": {"77": {"arm": 1}}, "links": {"5-99": {}}}
        for step in range(1000):
            yield "delta", json.loads(json.dumps(fleet.delta(step)))
            time.sleep(0.2)

    with serving(PageServer(events)) as server:
        opened(browser, server)
    assert [line for line in browser.complaints if "ERR_" not in line] == []


@pytest.mark.covering(2)
@pytest.mark.parametrize("size", [1e299, -1e299, 1e-299, 2.0**53, 0.0])
def test_numbers_of_any_size_are_drawn(browser: Browser, size: float) -> None:
    """An axis steps through its ticks: where steps are too small to count, it would never end."""

    class Odd(MadeUpFleet):
        def everyone(self, done: float) -> dict[str, Any]:
            usual = super().everyone(done)
            odd = {
                key: [size * (1 + 1e-16 * k) for k in range(4)] for key in ("mean", "low", "high")
            }
            return usual | odd | {"pulls_per_second": abs(size), "tickets": 2**60}

    odd = Odd()
    odd.extra_events = [{"seq": 9, "t": size, "kind": "up", "agent": 0, "text": "at an odd time"}]
    with serving(PageServer(odd.events)) as server:
        tab = opened(browser, server)
        wait_for(tab, "#events", "at an odd time")
        tab.click("#agent-table tbody tr:nth-child(2) button")
        wait_for(tab, "#selected", " prefers ")
        tab.wait_for_timeout(500)
    assert [line for line in browser.complaints if "ERR_" not in line] == []


@pytest.mark.slow
def test_a_loud_agent_does_not_hide_the_others(
    browser: Browser, fleet: MadeUpFleet, server: PageServer
) -> None:
    quiet = {"seq": 10, "t": time.time(), "kind": "down", "agent": 1, "text": "shop-2 is gone"}
    fleet.extra_events = [quiet] + [
        {"seq": seq, "t": time.time(), "kind": "alarm", "agent": 5, "text": f"look here {seq}"}
        for seq in range(11, 1011)
    ]
    tab = opened(browser, server)
    wait_for(tab, "#events", "look here 1010")
    assert "shop-2 is gone" in text(tab, "#events")
    assert tab.locator("#events li").count() <= 100
    assert browser.complaints == []
