"""A stored run on the page: what is shown, and how it is served."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import xarray as xr

import coopbandits as cb
from coopbandits.core.errors import InputError
from coopbandits.dashboard.serving import serve
from coopbandits.dashboard.stored import StoredRun, StoredSite
from coopbandits.page import assets
from coopbandits.results import Result


def tiny(pulls: list[list[list[int]]], rewards: list[list[list[float]]]) -> StoredRun:
    """Return a run of one policy from pulls and rewards (frame, agent, arm)."""
    counted, paid = np.array([pulls], dtype=np.uint32), np.array([rewards], dtype=np.float32)
    _, frames, _, arms = counted.shape
    dims = ("policy", "frame", "agent", "arm")
    dataset = xr.Dataset(
        {
            "regret": (("policy", "run", "round"), np.zeros((1, 1, 1))),
            "watch_pulls": (dims, counted),
            "watch_rewards": (dims, paid),
            "watch_links": (("link", "end"), [[0, 1]]),
            "watch_means": (("frame", "arm"), np.tile(np.linspace(1.0, 0.0, arms), (frames, 1))),
            "watch_regret": (dims[:2], np.arange(frames)[None] * 2.0),
            "watch_changes": (("change",), [3]),
            "watch_stages": (("policy", "stage"), [[0, 0]]),
            "watch_sigma": 0.5,
        },
        {"policy": ["mine"], "round": [frames], "frame": np.arange(1, frames + 1),
         "arm": np.arange(arms)},
    )  # fmt: skip
    settings = {"network": {"description": "pair"}, "seed": 4}
    return StoredRun(Result(dataset, {"settings": settings}))


def codes(track: dict[str, object]) -> list[int]:
    return list(base64.b64decode(str(track["arm"])))


PULLS = [
    [[1, 0], [0, 1]],
    [[2, 2], [0, 0]],  # the first agent had pulled arm 0 before; the second is away
    [[0, 4], [1, 3]],
]
REWARDS = [[[1.0, 0.0], [0.0, 0.5]], [[2.0, 1.0], [0.0, 0.0]], [[0.0, 2.0], [1.0, 1.0]]]


def test_a_track_is_counted_as_by_hand() -> None:
    track = tiny(PULLS, REWARDS).track(0)
    assert codes(track) == [0, 1, 0, 255, 1, 1]
    assert not track["wide"]
    assert track["share"] == [[0.5, 0.5], [0.5, 0.5], [0.125, 0.875]]
    assert track["mean"] == [[1.0, 0.5], [1.0, 0.5], [1.0, 0.45]]
    half = [0.98 / np.sqrt(n) for n in (4, 10)]  # 1.96 σ/√n
    assert track["low"][2] == pytest.approx([1.0 - half[0], 0.45 - half[1]], rel=1e-3)
    assert track["high"][2] == pytest.approx([1.0 + half[0], 0.45 + half[1]], rel=1e-3)
    assert track["regret"] == [0.0, 2.0, 4.0]
    assert track["marks"][0] == {"round": 3, "kind": "world", "text": "rewards change"}
    assert track["disagree"] == [0.5, 0.0, 0.0]
    assert track["ahead"] == [0, 0, 0]
    assert track["sure"][2] == pytest.approx(0.9685, abs=1e-4)  # Φ(0.55/(0.5 √(1/4 + 1/10)))


def test_one_agent_is_shown_by_its_own_pulls() -> None:
    run = tiny(PULLS, REWARDS)
    found = run.agent(0, 1)
    np.testing.assert_array_equal(found["share"], [[0.0, 1.0], [np.nan, np.nan], [0.25, 0.75]])
    np.testing.assert_array_equal(found["mean"][2], [1.0, 0.375])
    for panel, agent in ((0, 2), (1, 0), (0, -1)):
        with pytest.raises(InputError, match="does not exist"):
            run.agent(panel, agent)


@pytest.mark.covering(1)
@pytest.mark.parametrize("agents", [200, pytest.param(2000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("policy", ["independent-ts", "independent-ucb"])
def test_intervals_hold_the_mean_of_an_arm(policy: str, agents: int) -> None:
    """Agents without communication are independent cases.

    An arm is dropped when its rewards were bad, so some more than 5 % of the intervals end too low.
    """
    means = [1.0, 0.8, 0.5, 0.0]
    result = cb.simulate(
        cb.GaussianBandit(means), f"cycle:{agents}", policy, 100, runs=1, seed=1, keep="watch"
    )
    run = StoredRun(result)
    ends = [(found["low"], found["high"]) for found in (run.agent(0, i) for i in range(agents))]
    low, high = np.array(ends, dtype=np.float64)[:, :, -1].swapaxes(0, 1)
    held = ((low <= means) & (means <= high)).mean(axis=0)
    print(f"{policy}, {agents} agents: {held.round(3)}")
    assert (held > 0.92 - 3 * np.sqrt(0.95 * 0.05 / agents)).all()
    assert (held < 0.95 + 3 * np.sqrt(0.95 * 0.05 / agents)).all()


def test_nothing_is_known_of_an_arm_that_nobody_pulled() -> None:
    run = tiny([[[1, 0, 0]], [[0, 1, 0]]], [[[1.0, 0, 0]], [[0, 0.2, 0]]])
    track = run.track(0)
    assert track["sure"] == [0.5, 0.5]
    assert np.isnan(track["mean"][1][2])
    nobody = tiny([[[0, 0]]], [[[0.0, 0.0]]]).track(0)
    assert nobody["ahead"] == [-1]
    assert np.isnan(nobody["sure"][0])
    assert np.isnan(nobody["disagree"][0])


def test_more_arms_than_a_byte_holds() -> None:
    pulls = np.zeros((1, 1, 300), dtype=int)
    pulls[0, 0, 299] = 1
    track = tiny(pulls.tolist(), (pulls * 0.5).tolist()).track(0)
    assert track["wide"]
    assert codes(track) == [299 % 256, 299 // 256]


def test_a_recording_of_a_version_before_is_refused() -> None:
    kept = tiny(PULLS, REWARDS).result
    older = Result(kept.dataset.drop_vars("watch_stages"), kept.meta)
    with pytest.raises(InputError, match="simulate"):
        StoredRun(older)


def test_agreement_is_marked_once_it_lasts() -> None:
    frames = [[[1, 0]] * 2, [[0, 1]] * 2, *[[[1, 0]] * 2] * 6, *[[[0, 1]] * 2] * 5]
    run = tiny(frames, [[[0.0, 0.0]] * 2] * len(frames))
    marks = [
        (mark["round"], mark["text"].split("prefer ")[1]) for mark in run.track(0)["marks"][1:]
    ]
    assert marks == [(3, "arm 0 from here on"), (9, "arm 1 from here on")]


@pytest.fixture
def kept() -> Result:
    return cb.simulate(
        cb.BernoulliBandit([0.2, 0.8, 0.4]).named(["tea", "coffee", "milk"]),
        cb.Network.from_spec("cycle:6"),
        [cb.DDUCB(), cb.IndependentUCB()],
        80,
        keep="watch",
        faults="crash=0.5@20..40",
        engine="reference",
    )


def test_a_simulation_becomes_a_scene_and_tracks(kept: Result, tmp_path: Path) -> None:
    kept.save(tmp_path)
    run = StoredRun.load(tmp_path)
    scene = run.scene()
    assert scene["title"] == "cycle:6, 3 arms, T = 80, seed 0, crash=0.5@20..40"
    assert scene["panels"] == ["dducb", "independent-ucb"]
    assert scene["arms"] == ["tea", "coffee", "milk"]
    assert [agent["name"] for agent in scene["agents"]] == [f"agent {i}" for i in range(6)]
    assert sorted(map(tuple, scene["links"])) == [(0, 1), (0, 5), (1, 2), (2, 3), (3, 4), (4, 5)]
    for panel in (0, 1):
        track = run.track(panel)
        assert track["regret"][-1] == pytest.approx(float(kept.regret[panel, 0, -1]), rel=1e-3)
        away = np.reshape(codes(track), (-1, 6)) == 255
        assert away.any(axis=0).sum() == 3
        gone = (run.rounds > 25) & (run.rounds < 38)
        assert (away.sum(axis=1)[gone] == 3).all()
        assert not away[run.rounds > 45].any()
        stages = [(m["round"], m["text"]) for m in track["marks"] if m["kind"] == "stage"]
        read = "the first stage of mixing, of 7 rounds, ends: "
        read += "agents now use what all had pulled before"
        assert (track["stages"], stages) == (([10, 7], [(10, read)]) if panel == 0 else ([], []))
        told = [(m["round"], m["text"]) for m in track["marks"] if m["kind"] == "fault"]
        assert told == [(20, "crash=0.5@20..40 begins"), (40, "crash=0.5@20..40 ends")]


def test_where_requests_differ_no_option_is_ahead() -> None:
    router = cb.LinearBandit([[1.0, 0.0], [0.0, 1.0]], features=[[1, 0], [0, 1]], sigma=0.3)
    told = cb.parse_policy("tree-sums*lin-ts:disjoint=true")
    network = cb.Network.from_spec("cycle:4")
    run = StoredRun(cb.simulate(router, network, told, 30, keep="watch", engine="reference"))
    scene, track = run.scene(), run.track(0)
    assert scene["truth"] is None
    assert scene["contexts"]
    assert set(track["ahead"]) == {-1}
    assert np.isnan(track["sure"]).all()
    assert track["regret"][-1] == pytest.approx(float(run.result.regret[0, 0, -1]), rel=1e-3)


def test_a_result_kept_otherwise_names_the_command(tmp_path: Path) -> None:
    network = cb.Network.from_spec("cycle:4")
    plain = cb.simulate(cb.BernoulliBandit([0.2, 0.8]), network, cb.DDUCB(), 9, engine="reference")
    with pytest.raises(InputError, match="--keep watch --out FOLDER"):
        StoredRun(plain)
    with pytest.raises(InputError, match="holds no result"):
        StoredRun.load(tmp_path)


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes


class Place:
    """A server in a thread, and requests to it."""

    def __init__(self, site: StoredSite) -> None:
        self.ready, self.address = threading.Event(), ""
        self.thread = threading.Thread(target=lambda: asyncio.run(self.live(site)))
        self.thread.start()
        assert self.ready.wait(30)

    async def live(self, site: StoredSite) -> None:
        self.loop, self.task = asyncio.get_running_loop(), asyncio.current_task()
        with suppress(asyncio.CancelledError):
            await serve(site, 0, self.told)

    def told(self, address: str) -> None:
        self.address = address
        self.ready.set()

    def stop(self) -> None:
        assert self.task is not None
        self.loop.call_soon_threadsafe(self.task.cancel)
        self.thread.join(30)
        assert not self.thread.is_alive()

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(self.address.split("/")[2], timeout=30)

    def ask(self, path: str, method: str = "GET", **headers: str) -> Reply:
        connection = self.connection()
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        reply = Reply(answer.status, dict(answer.getheaders()), answer.read())
        connection.close()
        return reply


@pytest.fixture(scope="module")
def run() -> StoredRun:
    policies = [cb.DDUCB(), cb.IndependentUCB()]
    network = cb.Network.from_spec("cycle:5")
    problem = cb.BernoulliBandit([0.2, 0.8])
    return StoredRun(cb.simulate(problem, network, policies, 30, keep="watch", engine="reference"))


@pytest.fixture(scope="module")
def place(run: StoredRun) -> Iterator[Place]:
    place = Place(StoredSite(run))
    yield place
    place.stop()


def test_the_page_is_served_with_its_policy(place: Place) -> None:
    assert place.address.startswith("http://127.0.0.1:")
    reply = place.ask("/ui/")
    assert reply.status == 200
    page = assets.find("")
    assert page is not None
    assert reply.body == page.body
    for name, value in assets.HEADERS:
        assert reply.headers[name.decode()] == value.decode()
    assert place.ask("/ui").headers["location"] == "/ui/"
    again = place.ask("/ui/", **{"if-none-match": page.etag.decode()})
    assert (again.status, again.body) == (304, b"")


def test_the_stream_begins_with_the_scene(place: Place, run: StoredRun) -> None:
    connection = place.connection()
    connection.request("GET", "/ui/events")
    answer = connection.getresponse()
    assert answer.getheader("content-type") == "text/event-stream"
    assert answer.getheader("content-security-policy")
    assert answer.readline() == b"event: scene\n"
    assert json.loads(answer.readline().removeprefix(b"data: ")) == run.scene()
    connection.close()


def test_tracks_and_agents_are_numbers_or_null(place: Place, run: StoredRun) -> None:
    track = json.loads(place.ask("/ui/track?panel=1").body)
    assert len(track["share"]) == len(run.rounds)
    assert track["regret"] == run.track(1)["regret"]
    agent = place.ask("/ui/agent?panel=0&agent=4")
    assert agent.headers["cache-control"] == "no-store"
    told: dict[str, Any] = json.loads(agent.body)
    assert told["mean"][0].count(None) == 1  # it has pulled one arm of two
    assert b"NaN" not in agent.body


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("/ui/track", "/ui/track?panel=0"),
        ("/ui/track?panel=x", "'x'"),
        ("/ui/track?panel=-1", "'-1'"),
        ("/ui/track?panel=2", "panel 2"),
        ("/ui/track?panel=99999999999999999999", "99999999999999999999"),
        ("/ui/agent?panel=0", "/ui/agent?panel=0&agent=0"),
        ("/ui/agent?panel=0&agent=5", "agent 5"),
    ],
)
def test_bad_questions_get_a_sentence(place: Place, path: str, sentence: str) -> None:
    reply = place.ask(path)
    assert 400 <= reply.status < 500
    assert sentence in json.loads(reply.body)["error"]


def test_nothing_can_be_changed_and_nobody_else_may_ask(place: Place) -> None:
    assert place.ask("/ui/track?panel=0", "POST").status == 405
    assert place.ask("/ui/", host="elsewhere.example").status == 421
    assert place.ask("/ui/", origin="http://elsewhere.example").status == 403
    assert place.ask("/ui/../stored.py").status == 404
