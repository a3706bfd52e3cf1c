"""The API's description in OpenAPI 3.1, made from the messages and one table of operations."""

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
from coopbandits.page.state import AgentState
from coopbandits.version import __version__

REFERENCE = "#/components/schemas/{name}"
TEXT = {"text/plain": {"schema": {"type": "string"}}}
HTML = {"text/html": {"schema": {"type": "string"}}}
EVENTS = {"text/event-stream": {"schema": {"type": "string"}}}
PLAIN_OBJECT = {"application/json": {"schema": {"type": "object"}}}

HEAD_ERRORS = {
    400: "Malformed HTTP request.",
    403: "The origin of the web page is not allowed.",
    421: "The host name is not served here.",
}
BODY_ERRORS = {
    400: "The body is not JSON, or malformed HTTP request.",
    413: "The body is too large.",
    415: "The request is not declared as JSON.",
    422: "The body does not fit, or has an invalid value.",
}
UNAUTHORIZED = {401: "No valid token."}
NO_SCOPE = "Or the token lacks the scope."
UNAVAILABLE = {503: "The agent cannot serve, as where its disk is full or it is about to stop."}
TOO_FAST = "Calls are faster than the cluster allows."
FAILED = {500: "The agent failed; its log says why."}
HEADERS: dict[int, tuple[str, dict[str, Any]]] = {
    401: ("WWW-Authenticate", {"type": "string"}),
    429: ("Retry-After", {"type": "integer", "minimum": 1}),
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

NAMED_BANDIT = {
    "name": "bandit",
    "in": "path",
    "required": True,
    "description": "The name of a bandit.",
    "schema": {"type": "string"},
}

SHOWN_BANDIT = {
    "name": "bandit",
    "in": "query",
    "description": "The bandit to show; by default the first.",
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
            **UNAVAILABLE,
            404: "The ticket was never issued.",
            409: "Another reward was submitted for the ticket before.",
            410: "The ticket has expired, or was abandoned for newer ones.",
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
        {422: "Invalid context."},
        parameters=[ASKED_CONTEXT],
    ),
    Operation(
        "get",
        "/recommendation",
        "Which option won, and how sure that is",
        RecommendationAnswer,
        {422: "Invalid probability."},
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
    Operation("get", "/ui/", "A page that shows the agent and its neighbours", HTML),
    Operation(
        "get",
        "/ui/state",
        "What the page shows",
        AgentState,
        {404: "There is no such bandit.", 422: "Invalid number of an event."},
        parameters=[SINCE, SHOWN_BANDIT],
    ),
    Operation(
        "get",
        "/ui/events",
        "What changes, as server-sent events",
        EVENTS,
        {**UNAVAILABLE, 404: "There is no such bandit."},
        parameters=[SHOWN_BANDIT],
    ),
    Operation("get", "/", "A list of the paths", TEXT),
)


def describe(
    arms: Sequence[str] | None,
    protected: bool = False,
    public: Collection[str] = (),
    context: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the description of an agent's API.

    Parameters
    ----------
    arms : sequence of str, or None
        The options' names, where the agent has one bandit only.
    protected : bool
        Whether a token is needed.
    public : collection of str
        Paths that need none.
    context : mapping, optional
        The schema of contexts, where the agent takes any.
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
    for operation in (*of_bandits, *of_agent):
        secret = protected and operation.path not in public
        paths[operation.path] = {operation.method: _described(operation, secret, context)}
    components: dict[str, Any] = {"schemas": _schemas(arms, context)}
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
        "info": {"title": "coopbandits agent", "version": __version__},
        "paths": paths,
        "components": components,
    }


def _described(operation: Operation, secret: bool, context: Any) -> dict[str, Any]:
    name = operation.path.replace("{bandit}", "one").strip("/").partition(".")[0]
    described: dict[str, Any] = {
        "operationId": name.replace("/", "_") or "index",
        "summary": operation.summary,
        "responses": _answers(operation, secret),
    }
    if operation.body is not None:
        content = _content(operation.body)
        described["requestBody"] = {"content": content, "required": True}
    if parameters := [each for each in operation.parameters if context or each != ASKED_CONTEXT]:
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
    errors = {**HEAD_ERRORS, **operation.errors, **FAILED, **(UNAUTHORIZED if secret else {})}
    if secret:
        errors[403] = f"{errors[403]} {NO_SCOPE}"
    for status, text in sorted(errors.items()):
        answers[str(status)] = {"description": text, "content": _content(ErrorAnswer)}
        if status in HEADERS:
            name, schema = HEADERS[status]
            answers[str(status)]["headers"] = {name: {"schema": schema, "required": True}}
    return answers


def _content(kind: Any) -> dict[str, Any]:
    """Return the content of a body: a reference to one of our messages, or as given."""
    if isinstance(kind, dict):
        return kind
    return {"application/json": {"schema": {"$ref": REFERENCE.format(name=kind.__name__)}}}


def _schemas(arms: Sequence[str] | None, context: Any) -> dict[str, Any]:
    """Return the schemas of all messages, with this agent's options and features in them."""
    messages: list[Any] = [ErrorAnswer]
    for operation in OPERATIONS:
        named = (operation.answer, operation.body)
        messages += [kind for kind in named if isinstance(kind, type)]
    _, schemas = msgspec.json.schema_components(messages, ref_template=REFERENCE)
    several = schemas["ChooseRequest"]["properties"]["allowed"]["anyOf"]
    (listed,) = (schema for schema in several if schema.get("type") == "array")
    if arms is not None:
        listed["items"]["enum"] = list(arms)
    if context is None:
        del schemas["ChooseRequest"]["properties"]["context"]
        return schemas
    schemas["ChooseRequest"]["properties"]["context"] = {"$ref": REFERENCE.format(name="Context")}
    schemas["ChooseRequest"]["required"] = ["context"]
    return {**schemas, "Context": dict(context)}
