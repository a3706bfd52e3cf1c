"""Takes over a changed configuration while the agent runs, all of it or nothing.

Sections of bandits are among what may change, unless the cluster's document declares them.

Certificates of links and the list of revoked ids are read again whenever their files change, with
or without being told.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import fields

from coopbandits.core.errors import InputError
from coopbandits.core.spelling import one_line
from coopbandits.fleet.api import ApiServer
from coopbandits.fleet.config import NodeConfig
from coopbandits.fleet.identity.files import read_token
from coopbandits.fleet.identity.tls import api_context
from coopbandits.fleet.process.draining import Drain
from coopbandits.fleet.process.logs import set_up_log
from coopbandits.fleet.process.runtime import Runtime
from coopbandits.fleet.service import UnavailableError

LIVE = (
    "token_file", "revoked", "log_level", "log_format", "drain_seconds", "ready_neighbors",
    "bandits",
)  # fmt: skip
"""What may change without a restart; of files named elsewhere, what they hold."""

TABLES = {
    "cluster": "[cluster]",
    "neighbors": "[[neighbors]]",
    "tls": "the paths in [tls]",
    "api_tls": "the paths in [api_tls]",
    "api_limits": "[api_limits]",
}

log = logging.getLogger(__name__)


class Reload:
    """Reads an agent's configuration anew.

    Parameters
    ----------
    config : NodeConfig
        What it runs with.
    reread : callable
        Reads the configuration's file, and checks those that it names.
    runtime, api, drain : Runtime, ApiServer and Drain
        What is told of a change.
    """

    def __init__(
        self,
        config: NodeConfig,
        reread: Callable[[], NodeConfig],
        runtime: Runtime,
        api: ApiServer,
        drain: Drain,
    ) -> None:
        self.config, self.reread = config, reread
        self.runtime, self.api, self.drain = runtime, api, drain

    def __call__(self) -> str:
        """Take over what has changed, or nothing; return what became of it in a sentence."""
        try:
            found = self.reread()
            require_live(self.config, found)
            token = read_token(found.token_file) if found.token_file else None
            tokens = {
                name: read_token(each.token_file)
                for name, each in found.bandits.items()
                if each.token_file is not None
            }
            tls = api_context(found.api_tls) if found.api_tls else None
            if found.bandits != self.config.bandits:
                self.runtime.take(found.bandits)
        except (InputError, UnavailableError) as error:
            sentence = f"nothing was reloaded: {'; '.join(str(error).splitlines())}"
            log.error("%s", sentence)
        except Exception as error:  # the agent is well, whatever its file made this stumble over
            sentence = f"nothing was reloaded: {one_line(error)}; look at the file, and at the log"
            log.exception("%s", sentence)
        else:
            self._take(found)
            self.api.renew(token, tls)
            self.runtime.service.renew_tokens(tokens)
            sentence = "the configuration was reloaded"
            log.info("%s", sentence)
        self.runtime.node.events.note("reload", sentence, apart=0.0)
        return sentence

    def _take(self, found: NodeConfig) -> None:
        """Take over what cannot fail any more."""
        self.config = found
        set_up_log(found)
        self.drain.seconds = found.drain_seconds
        self.runtime.service.config = found
        self.runtime.service.ready_neighbors = found.ready_neighbors
        self.runtime.shell.revoked.follow(found.revoked)


def require_live(before: NodeConfig, after: NodeConfig) -> None:
    """Refuse a change that takes a restart."""
    changed = [
        TABLES.get(field.name, f"[node] {field.name}")
        for field in fields(NodeConfig)
        if field.name not in LIVE and getattr(before, field.name) != getattr(after, field.name)
    ]
    if (before.token_file is None) != (after.token_file is None):  # who may ask, and for what
        changed.append("[node] token_file")
    if changed:
        raise InputError(
            f"{' and '.join(changed)} changed, which takes a restart; undo that, or restart the "
            "agent"
        )
