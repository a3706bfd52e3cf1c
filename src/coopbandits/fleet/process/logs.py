"""The log of an agent's process: one place that says how much is logged, and how it looks."""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime

from coopbandits.fleet.config import NodeConfig

TEXT = "%(asctime)s %(levelname)s %(message)s"


class JsonLines(logging.Formatter):
    """Writes a line as a JSON object, with the agent's id, for whoever collects many logs.

    Parameters
    ----------
    agent : str
        The agent's id.
    """

    def __init__(self, agent: str) -> None:
        super().__init__()
        self.agent = agent

    def format(self, record: logging.LogRecord) -> str:
        """Return the object on one line; a traceback is one of its fields."""
        told = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "agent": self.agent,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            told["traceback"] = self.formatException(record.exc_info)
        return json.dumps(told, ensure_ascii=False)


def set_up_log(config: NodeConfig) -> None:
    """Log to standard error as a configuration says, from now on."""
    handler = logging.StreamHandler(sys.stderr)
    as_json = config.log_format == "json"
    handler.setFormatter(JsonLines(config.id) if as_json else logging.Formatter(TEXT))
    logging.basicConfig(handlers=[handler], level=config.log_level.upper(), force=True)
