"""The API's description in OpenAPI 3.1, made from the messages and one table of operations.

Every answer to an operation is described with its status, content and headers, also those that come
before the operation is looked at. What has no place in an operation is in `GENERAL`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from coopbandits.fleet.api.messages import (
    AliveAnswer,
    ArmsAnswer,
    BanditsAnswer,
    ChoiceAnswer,
    ChooseRequest,
    DrainAnswer,
    DrainRequest,
    ErrorAnswer,
    ObserveRequest,
    ReadyAnswer,
    ReceiptAnswer,
    RecommendationAnswer,
)
from coopbandits.fleet.document.seal import Signed
from coopbandits.fleet.service import BanditSchema
from coopbandits.page.state import AgentState
from coopbandits.version import __version__

REFERENCE = "#/components/schemas/{name}"
TEXT = {"text/plain": {"schema": {"type": "string"}}}
HTML = {"text/html": {"schema": {"type": "string"}}}
EVENT = {
    "type": "object",
    "properties": {
        "event": {"type": "string", "enum": ["scene", "history", "delta"]},
        "data": {
            "type": "string",
            "contentMediaType": "application/json",
            "contentSchema": {"type": "object"},
        },
    },
    "required": ["event", "data"],
}
EVENTS = {"text/event-stream": {"schema": EVENT}}  # which describes one event
PLAIN_OBJECT = {"application/json": {"schema": {"type": "object"}}}

GENERAL = """\
Every error is an `ErrorAnswer`: one sentence with what was wrong and what to do.

HEAD is accepted wherever GET is, and its answer has no body. Another method is answered with 405
and the header `Allow`, an unknown path with 404. OPTIONS with the header `Origin` is a preflight.
"""

# Any operation can be answered with these, whatever its body.
HEAD_ERRORS = {
    400: "Malformed HTTP request.",
    403: "The origin of the web page is not allowed.",
    413: "The body is too large.",
    421: "The host name is not served here.",
    429: "Too many requests wait for their answers on this connection.",
    431: "The headers are too large or too many.",
}
BODY_ERRORS = {
    400: "The body is not JSON, or malformed HTTP request.",
    415: "The request is not declared as JSON.",
    422: "The body does not fit, or has an invalid value.",
}
UNAUTHORIZED = {401: "No valid token."}
NO_SCOPE = "Or the token lacks the scope."
UNAVAILABLE = {503: "The agent cannot serve, as where its disk is full or it is about to stop."}
AWAY = {503: f"{UNAVAILABLE[503]} Or the agent that issued the ticket is away: submit it again."}
TOO_FAST = f"Calls are faster than the cluster allows. {HEAD_ERRORS[429]}"
TOO_MUCH = "The query has too many fields."
FAILED = {500: "The agent failed; its log says why."}
_SECONDS = {"type": "integer", "minimum": 1}
HEADERS: dict[int, tuple[str, dict[str, Any]]] = {
    304: ("ETag", {"schema": {"type": "string"}, "required": True}),
    401: ("WWW-Authenticate", {"schema": {"type": "string"}, "required": True}),
    429: ("Retry-After", {"schema": _SECONDS, "required": True}),
    503: ("Retry-After", {"schema": _SECONDS, "description": "Where too many streams are open."}),
}

# The ticket in a choice's answer goes into the request that submits its reward.
REWARD = {"ticket": "$response.body#/ticket"}
REWARD_LINK = {"reward": {"operationId": "observe", "requestBody": REWARD}}
REWARD_LINK_OF_BANDIT = {
    "reward": {
        "operationId": "bandits_one_observe",
        "parameters": {"bandit": "$request.path.bandit"},
        "requestBody": REWARD,
    }
}


class Operation(NamedTuple):
    """One operation of the API."""

    method: str
    path: str
    summary: str
    answer: Any
    errors: Mapping[int, str] = MappingProxyType({})
    body: Any = None
    parameters: Sequence[Mapping[str, Any]] = ()


LARGEST = 2**53
"""Whole numbers up to it are exact in JavaScript too."""

SINCE = {
    "name": "since",
    "in": "query",
    "description": "Return only events with larger numbers.",
    "schema": {"type": "integer", "minimum": 0, "maximum": LARGEST},
}

OF_DEFAULT = ("/choose", "/observe", "/arms", "/recommendation")
"""The calls that are answered for the default bandit where none is named."""

OF_BANDIT = (*OF_DEFAULT, "/export")
"""The calls of single bandits; without a name, an export has all bandits."""

CHOOSE, METRICS, ADMIN = "choose", "metrics", "admin"
"""Scopes of tokens: for applications, for monitoring, and for operators."""

SCOPES = {
    **dict.fromkeys(("/choose", "/observe"), (CHOOSE,)),
    **dict.fromkeys(("/arms", "/recommendation"), (CHOOSE, ADMIN)),
    **dict.fromkeys(("/bandits", "/health"), (CHOOSE, METRICS, ADMIN)),
    "/metrics": (METRICS,),
    **dict.fromkeys(("/ui/state", "/ui/events"), (METRICS, ADMIN)),
    **dict.fromkeys(("/drain", "/export", "/cluster", "/cluster/document"), (ADMIN,)),
}
"""The scopes whose tokens open a path, also of a bandit; the other paths are opened by all."""

NO_DEFAULT = "No bandit is named, and default_bandit is not set."

BANDIT = {"$ref": REFERENCE.format(name="BanditName")}

NAMED_BANDIT = {
    "name": "bandit",
    "in": "path",
    "required": True,
    "description": "The name of a bandit.",
    "schema": BANDIT,
}

SHOWN_BANDIT = {
    "name": "bandit",
    "in": "query",
    "description": "The bandit to show; by default the first.",
    "schema": BANDIT,
}

KNOWN_PAGE = {
    "name": "If-None-Match",
    "in": "header",
    "description": "The entity tag of the page that the client has.",
    "schema": {"type": "string"},
}

ASKED_CONFIDENCE = {
    "name": "confidence",
    "in": "query",
    "description": "The probability that the answer is right; by default 0.95.",
    "schema": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
}

ASKED_CONTEXT = {
    "name": "context",
    "in": "query",
    "description": "Return estimates for requests like this.",
    "content": {"application/json": {"schema": {"$ref": REFERENCE.format(name="Context")}}},
}

OPERATIONS = (
    Operation(
        "post",
        "/choose",
        "Choose an option and get a ticket for its reward",
        ChoiceAnswer,
        {**BODY_ERRORS, **UNAVAILABLE, 429: TOO_FAST},
        ChooseRequest,
    ),
    Operation(
        "post",
        "/observe",
        "Submit the reward of a ticket; idempotent",
        ReceiptAnswer,
        {
            **BODY_ERRORS,
            **AWAY,
            404: "The ticket was never issued.",
            409: "Another reward was submitted for the ticket before.",
            410: "The ticket has expired, was abandoned for newer ones, or its agent is gone.",
            429: TOO_FAST,
        },
        ObserveRequest,
    ),
    Operation(
        "post",
        "/drain",
        "Stop the agent: no more choices, then wait for the rewards of open tickets",
        DrainAnswer,
        {
            **BODY_ERRORS,
            **UNAVAILABLE,
            403: "The API has no authentication, so only a signal stops the agent.",
        },
        DrainRequest,
    ),
    Operation(
        "get",
        "/arms",
        "What the agent knows of every option",
        ArmsAnswer,
        {422: f"Invalid context. {TOO_MUCH}"},
        parameters=[ASKED_CONTEXT],
    ),
    Operation(
        "get",
        "/recommendation",
        "Which option won, and how sure that is",
        RecommendationAnswer,
        {422: f"Invalid probability. {TOO_MUCH}"},
        parameters=[ASKED_CONFIDENCE],
    ),
    Operation("get", "/bandits", "All bandits of the agent", BanditsAnswer),
    Operation("get", "/export", "Everything learned", PLAIN_OBJECT),
    Operation("get", "/health", "The agent's state", PLAIN_OBJECT),
    Operation(
        "get", "/cluster", "The cluster's document, and which agent has which version", PLAIN_OBJECT
    ),
    Operation(
        "post",
        "/cluster/document",
        "Submit a new, signed document of the cluster",
        PLAIN_OBJECT,
        {**BODY_ERRORS, **UNAVAILABLE},
        Signed,
    ),
    Operation(
        "get",
        "/ready",
        "Whether the agent can serve",
        ReadyAnswer,
        UNAVAILABLE,
    ),
    Operation("get", "/alive", "Whether there is an agent at all", AliveAnswer),
    Operation("get", "/metrics", "Metrics for Prometheus", TEXT),
    Operation("get", "/openapi.json", "This description", PLAIN_OBJECT),
    Operation(
        "get",
        "/ui/",
        "A page that shows the agent and its neighbours",
        HTML,
        {304: "The page has the entity tag in If-None-Match."},
        parameters=[KNOWN_PAGE],
    ),
    Operation(
        "get",
        "/ui/state",
        "What the page shows",
        AgentState,
        {
            **UNAVAILABLE,
            404: "There is no such bandit.",
            422: f"Invalid number of an event. {TOO_MUCH}",
        },
        parameters=[SINCE, SHOWN_BANDIT],
    ),
    Operation(
        "get",
        "/ui/events",
        "What changes, as server-sent events",
        EVENTS,
        {**UNAVAILABLE, 404: "There is no such bandit.", 422: TOO_MUCH},
        parameters=[SHOWN_BANDIT],
    ),
    Operation("get", "/", "A list of the paths", TEXT),
)


def describe(
    bandits: Sequence[BanditSchema], protected: bool = False, public: Collection[str] = ()
) -> dict[str, Any]:
    """Return the description of an agent's API.

    Parameters
    ----------
    bandits : sequence of BanditSchema
        All bandits. If only one of them chooses, its options and features are described.
    protected : bool
        Whether a token is needed.
    public : collection of str
        Paths that need none.
    """
    paths: dict[str, dict[str, Any]] = {}
    of_bandits = [
        operation._replace(
            path=f"/bandits/{{bandit}}{operation.path}",
            errors={404: "There is no such bandit, or it is retired."} | dict(operation.errors),
            parameters=[NAMED_BANDIT, *operation.parameters],
        )
        for operation in OPERATIONS
        if operation.path in OF_BANDIT
    ]
    of_agent = [
        operation._replace(
            summary=f"{operation.summary}, of the default bandit",
            errors={
                **operation.errors,
                404: " ".join(filter(None, (NO_DEFAULT, operation.errors.get(404)))),
            },
        )
        if operation.path in OF_DEFAULT
        else operation
        for operation in OPERATIONS
    ]
    schemas = _schemas(bandits)
    for operation in (*of_bandits, *of_agent):
        secret = protected and operation.path not in public
        paths[operation.path] = {operation.method: _described(operation, secret, schemas)}
    components: dict[str, Any] = {"schemas": schemas}
    if protected:
        components["securitySchemes"] = {
            "token": {
                "type": "http",
                "scheme": "bearer",
                "description": "One token may open everything; others have the scope choose, "
                "metrics or admin, as listed under security.",
            }
        }
    return {
        "openapi": "3.1.0",
        "info": {"title": "coopbandits agent", "version": __version__, "description": GENERAL},
        "paths": paths,
        "components": components,
    }


def _described(operation: Operation, secret: bool, schemas: Mapping[str, Any]) -> dict[str, Any]:
    name = operation.path.replace("{bandit}", "one").strip("/").partition(".")[0]
    described: dict[str, Any] = {
        "operationId": name.replace("/", "_") or "index",
        "summary": operation.summary,
        "responses": _answers(operation, secret),
    }
    if operation.body is not None:
        # An empty body is accepted too, but without one most clients send no Content-Type.
        described["requestBody"] = {"content": _content(operation.body), "required": True}
    parameters = [
        each for each in operation.parameters if each != ASKED_CONTEXT or "Context" in schemas
    ]
    if parameters:
        described["parameters"] = parameters
    if secret:
        scopes = SCOPES.get(operation.path.removeprefix("/bandits/{bandit}"), ())
        described["security"] = [{"token": [scope]} for scope in scopes] or [{"token": []}]
    return described


def _answers(operation: Operation, secret: bool) -> dict[str, Any]:
    answers: dict[str, Any] = {
        "200": {"description": "Done.", "content": _content(operation.answer)}
    }
    if operation.answer is ChoiceAnswer:
        named = operation.path not in OF_DEFAULT
        answers["200"]["links"] = REWARD_LINK_OF_BANDIT if named else REWARD_LINK
    others = {**HEAD_ERRORS, **operation.errors, **FAILED, **(UNAUTHORIZED if secret else {})}
    if secret:
        others[403] = f"{others[403]} {NO_SCOPE}"
    for status, text in sorted(others.items()):
        answer = answers[str(status)] = {"description": text}
        if status >= 400:
            answer["content"] = _content(ErrorAnswer)
        if status in HEADERS:
            name, header = HEADERS[status]
            answer["headers"] = {name: header}
    return answers


def _content(kind: Any) -> dict[str, Any]:
    """Return the content of a body: a reference to one of our messages, or as given."""
    if isinstance(kind, dict):
        return kind
    return {"application/json": {"schema": {"$ref": REFERENCE.format(name=kind.__name__)}}}


def _schemas(bandits: Sequence[BanditSchema]) -> dict[str, Any]:
    """Return the schemas of all messages, with this agent's bandits in them."""
    messages: list[Any] = [ErrorAnswer]
    for operation in OPERATIONS:
        named = (operation.answer, operation.body)
        messages += [kind for kind in named if isinstance(kind, type)]
    _, schemas = msgspec.json.schema_components(messages, ref_template=REFERENCE)
    schemas["BanditName"] = {"type": "string"}
    if bandits:
        schemas["BanditName"]["enum"] = [each.name for each in bandits]
        # Of several bandits, whatever one of them accepts.
        schemas["ObserveRequest"]["properties"]["reward"] |= {
            "minimum": min(each.rewards[0] for each in bandits),
            "maximum": max(each.rewards[1] for each in bandits),
        }
    choose, choosing = schemas["ChooseRequest"], [each for each in bandits if each.arms]
    contexts = [each.context for each in choosing if each.context is not None]
    if not contexts:
        del choose["properties"]["context"]
    elif len(choosing) > 1:
        schemas["Context"] = {"type": "object"}
    else:
        schemas["Context"] = contexts[0]
        choose["properties"]["context"] = {"$ref": REFERENCE.format(name="Context")}
        choose["required"] = ["context"]
    if len(choosing) == 1:
        several = choose["properties"]["allowed"]["anyOf"]
        (listed,) = (schema for schema in several if schema.get("type") == "array")
        listed["items"]["enum"] = list(choosing[0].arms)
    return schemas
