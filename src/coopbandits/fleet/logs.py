"""The form of log lines: an event, then fields, as text or as JSON.

A line that concerns a peer, a bandit or a reason has it as a field, so that collectors can select
by it. `LogEvent` is the message itself and not an `extra` of the record: programs with a log of
their own, which run an agent inside, see the fields too.
"""

from __future__ import annotations

import json
import logging
import re
from datetime import UTC, datetime

Field = str | int | float | list[str] | BaseException | None

TEXT = "%(asctime)s %(levelname)s %(message)s"

BARE = re.compile(r'[^\s"=]+')


class LogEvent:
    """A log message: what happened, and fields that say to whom and why.

    Fields whose value is None are left out.

    Examples
    --------
    >>> str(LogEvent("link down", peer="shop-2", reason="it has left"))
    'link down peer=shop-2 reason="it has left"'
    """

    __slots__ = ("event", "fields")

    def __init__(self, event: str, **fields: Field) -> None:
        self.event = event
        self.fields = {
            key: str(value) if isinstance(value, BaseException) else value
            for key, value in fields.items()
            if value is not None
        }

    def __str__(self) -> str:
        pairs = [f"{key}={_shown(value)}" for key, value in self.fields.items()]
        return " ".join([self.event, *pairs])


def _shown(value: Field) -> str:
    text = "; ".join(value) if isinstance(value, list) else str(value)
    return text if BARE.fullmatch(text) else json.dumps(text, ensure_ascii=False)


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON with the agent's id, for log collectors."""

    def __init__(self, agent: str) -> None:
        super().__init__()
        self.agent = agent

    def format(self, record: logging.LogRecord) -> str:
        event = record.msg if isinstance(record.msg, LogEvent) else LogEvent(record.getMessage())
        found = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "agent": self.agent,
            "logger": record.name,
            "message": event.event,
            **event.fields,
        }
        if record.exc_info:
            found["traceback"] = self.formatException(record.exc_info)
        return json.dumps(found, ensure_ascii=False)
