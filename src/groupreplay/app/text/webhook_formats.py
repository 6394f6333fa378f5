"""Events as receivers over HTTP want them: CloudEvents, incidents of PagerDuty, messages of Slack.

Addresses, headers and fields: the CloudEvents HTTP binding 1.0.2 (structured mode), PagerDuty's Events API v2, Slack's
incoming webhooks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from groupreplay.app.text.event_text import RESOLVED, event_data, event_name, line_of, page_of
from groupreplay.state.events.incident_events import IncidentResolved
from groupreplay.state.phrases import Data, safe_text
from groupreplay.streaming.base.clock import UTC
from groupreplay.streaming.contract.messages import OBJECTS
from groupreplay.streaming.delivery.webhook import Format, Request

_JSON: Final = {"Content-Type": "application/json"}
#: Limits of PagerDuty and of Slack, in characters.
_SUMMARY: Final = 1_024
_TEXT: Final = 3_000
_PAGERDUTY_SEVERITIES: Final = {"ERROR": "critical", "WARN": "warning"}
_SLACK_MARKS: Final = {"ERROR": ":red_circle:", "WARN": ":large_yellow_circle:", "OK": ":white_check_mark:"}


def _cloud_event(event: bytes, secret: str) -> Request:
    """The event as it is; the secret is a bearer token."""
    headers = {"Content-Type": "application/cloudevents+json; charset=utf-8"}
    if secret:
        headers["Authorization"] = f"Bearer {secret}"
    return Request(event, headers)


def _pagerduty(public_url: str | None) -> Format:
    """A condition, or an incident of many groups, is open from its begin to its end; other events are left out.

    The secret is the routing key.
    """

    def encode(event: bytes, secret: str) -> Request | None:
        fields, data = _fields(event)
        key = data.get("condition_id") or data.get("incident_id")
        if not isinstance(key, str):
            return None
        has_ended = data.get("status") == RESOLVED or event_name(fields) == IncidentResolved.NAME
        incident: dict[str, Any] = {
            "routing_key": secret,
            "dedup_key": key,
            "event_action": "resolve" if has_ended else "trigger",
        }
        if not has_ended:
            line = line_of(fields)
            incident["payload"] = {
                "summary": f"{line.group}: {line.text}"[:_SUMMARY],
                "source": safe_text(str(fields.get("source", ""))),
                "severity": _PAGERDUTY_SEVERITIES.get(line.severity, "info"),
                "timestamp": fields.get("time"),
                "group": line.group,
                "class": safe_text(str(fields.get("type", ""))),
                "custom_details": data,
            }
            incident["links"] = [
                {"href": address, "text": text} for text, address in _pages(fields, data, public_url).items()
            ]
        return Request(msgspec.json.encode(incident), _JSON)

    return encode


def _slack(public_url: str | None) -> Format:
    """One message for each event; the address is the secret."""

    def encode(event: bytes, secret: str) -> Request:
        del secret
        fields, data = _fields(event)
        line = line_of(fields, UTC)
        mark = _SLACK_MARKS.get(line.label, ":information_source:")
        text = f"{mark} *{_escaped(line.group)}* {_escaped(line.text)} ({line.time} UTC)"[:_TEXT]
        links = [f"<{address}|{name}>" for name, address in _pages(fields, data, public_url).items()]
        return Request(msgspec.json.encode({"text": " ".join([text, *links])}), _JSON)

    return encode


def _fields(event: bytes) -> tuple[Mapping[str, Any], Data]:
    fields = OBJECTS.decode(event) or {}
    return fields, event_data(fields)


def _pages(fields: Mapping[str, Any], data: Data, public_url: str | None) -> dict[str, str]:
    """Addresses by their words, as far as they are known."""
    pages = {"page of the group": page_of(fields, public_url) if public_url else ""}
    runbook = data.get("runbook")
    if isinstance(runbook, str) and runbook.startswith(("http://", "https://")):
        pages["runbook"] = runbook
    return {words: address for words, address in pages.items() if address}


def _escaped(text: str) -> str:
    """Ids of groups come from others, and must not become links or mentions."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


#: By the name on the command line; each takes the address of the live pages, None: it is not known.
FORMATS: Final[Mapping[str, Callable[[str | None], Format]]] = {
    "cloudevents": lambda _: _cloud_event,
    "pagerduty": _pagerduty,
    "slack": _slack,
}
