"""The page over HTTP: its files, the same wherever it is served, and a stream of a feed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coopbandits.fleet.api.messages import Answer, refused
from coopbandits.fleet.api.site import Endpoint, Request, Route, Site
from coopbandits.page import assets
from coopbandits.page.feed import Feed

ROOT = "/ui/"
EVENTS = b"text/event-stream"
FRESH = (b"cache-control", b"no-store")
"""For data; files are asked for again too, but need not be sent again."""


class PageSite(Site):
    """A site with the page under /ui/; the page itself holds no data, so it needs no token."""

    def __init__(self, token: str | None = None, **settings: Any) -> None:
        super().__init__(token, **settings)
        self._page = Endpoint("GET", self.page_file, public=True)
        self._moved = Endpoint("GET", self.page_moved, public=True)
        self.endpoints[ROOT] = self._page

    def find(self, path: str) -> Route:
        """Return where a path leads, one of the page's files too."""
        if path.startswith(ROOT) and assets.find(path.removeprefix(ROOT)):
            return Route(self._page, ROOT, path)
        if path == ROOT.rstrip("/"):
            return Route(self._moved, ROOT, path)
        return super().find(path)

    def refuse_head(self, request: Request) -> Answer | None:
        """Refuse streams to other pages, too, that load them as if they were images.

        They could not read them, but there are only so many. Browsers say where a request comes
        from, and for one that asks properly the origin was checked.
        """
        came_from = request.fields.get(b"sec-fetch-site", b"none")
        if (
            request.path == f"{ROOT}events"
            and came_from not in (b"none", b"same-origin")
            and b"origin" not in request.fields
        ):
            return refused(403, "only the page that is served here may open a stream")
        return super().refuse_head(request)

    def dressed(self, request: Request, answer: Answer) -> Answer:
        """Return an answer, an error too, with what keeps a page in its place."""
        if not request.path.startswith(ROOT.rstrip("/")) or assets.HEADERS[0] in answer.headers:
            return answer
        return answer._replace(headers=answer.headers + assets.HEADERS)

    def page_moved(self, _: Request) -> Answer:
        """Lead to the page, whose addresses are relative to the slash."""
        return Answer(308, b"", b"text/plain", ((b"location", ROOT.encode()),))

    def page_file(self, request: Request) -> Answer:
        """Return a file of the page, unless the browser has it already."""
        asset = assets.find(request.path.removeprefix(ROOT))
        assert asset is not None  # noqa: S101  `find` has found it
        headers = (b"etag", asset.etag), (b"cache-control", b"no-cache")
        if request.fields.get(b"if-none-match") == asset.etag:
            return Answer(304, b"", headers=headers)
        return Answer(200, asset.body, asset.kind, headers)

    def page_stream(self, feed: Feed, refresh: Callable[[], None]) -> Answer:
        """Answer with what a feed tells, brought up to date by `refresh` before each look."""

        def begin() -> Callable[[], bytes]:
            reader = feed.reader()

            def pull() -> bytes:
                refresh()
                return reader.take()

            return pull

        return self.streamed(EVENTS, begin, FRESH)
