"""Events to a receiver over HTTP, one request each: at least once, whatever the receiver does meanwhile."""

from __future__ import annotations

import logging
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPMessage
from pathlib import Path
from typing import IO, Final
from urllib.parse import urlsplit

import msgspec

from groupreplay.state.phrases import counted_verb
from groupreplay.streaming.base.background import Background
from groupreplay.streaming.base.errors import GroupReplayError, unusable
from groupreplay.streaming.contract.messages import MessageDecoder, OutputRow
from groupreplay.streaming.delivery.deliveries import Answer, Deliveries, Waiting

log = logging.getLogger(__name__)

#: Longer is a receiver that hangs.
_REQUEST_SECONDS: Final = 10.0
#: An answer is read to here, so that its text can be logged.
_ANSWER_BYTES: Final = 200
#: What other statuses of 4xx say is about this one event; these are about the login, the address, or the moment.
_NOT_ABOUT_THE_EVENT: Final = frozenset({401, 403, 404, 405, 407, 408, 410, 421, 423, 425, 429})
_LOGIN: Final = frozenset({401, 403, 407})
#: So many events wait in memory, about 150 MB; later ones are counted and lost.
MOST_WAITING: Final = 100_000
#: Stands in the address for the secret: addresses of chats are secrets themselves.
SECRET: Final = "{secret}"  # noqa: S105


@dataclass(frozen=True, slots=True)
class Request:
    """The body of a POST, and its headers."""

    body: bytes
    headers: Mapping[str, str]


#: An event and the secret (empty: none) to a request; None: the receiver has no use for the event.
Format = Callable[[bytes, str], "Request | None"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Receiver:
    """Where events go. The secret is read anew for each request, so that it can be changed at any time."""

    url: str
    form: Format
    secret_file: Path | None = None

    def __post_init__(self) -> None:
        """Checks the address and the file.

        Raises:
            GroupReplayError: the address is none, or the secret cannot be read.
        """
        place = urlsplit(self.url)
        if place.scheme not in ("http", "https") or not place.hostname:
            raise unusable("the receiver has no address of HTTP", self.where, "write https://HOST/PATH")
        if place.username is not None:
            what = "the address of the receiver has a password, which every list of processes shows"
            raise unusable(
                what, self.where, f"give it in --webhook-secret-file, and write {SECRET} in its place"
            )
        if SECRET in self.url and self.secret_file is None:
            raise unusable("the address names a secret", self.where, "give --webhook-secret-file FILE")
        self.secret()

    @property
    def where(self) -> str:
        """The receiver without what may be secret."""
        place = urlsplit(self.url)
        return f"{place.scheme}://{place.hostname or ''}{f':{place.port}' if place.port else ''}"

    def secret(self) -> str:
        """The content of the file; empty without one.

        Raises:
            GroupReplayError: it cannot be read, or is no line of ASCII.
        """
        if self.secret_file is None:
            return ""
        fix = "write the secret as one line: (umask 077; cat > FILE)"
        try:
            secret = self.secret_file.read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise unusable(f"cannot read the secret of the receiver, {why}", self.secret_file, fix) from None
        if not secret or not secret.isascii() or not secret.isprintable():
            raise unusable("the secret of the receiver is no line of ASCII text", self.secret_file, fix)
        return secret


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A POST that is redirected becomes a GET without its body: it is an error."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> None:
        del req, fp, code, msg, headers, newurl


def post(receiver: Receiver, event: bytes) -> Answer | None:
    """One attempt; None: the receiver has no use for the event."""
    try:
        secret = receiver.secret()
    except GroupReplayError as error:
        return Answer(str(error))
    request = receiver.form(event, secret)
    if request is None:
        return None
    opener = urllib.request.build_opener(_NoRedirect)
    address = receiver.url.replace(SECRET, secret)
    try:
        # Of HTTP, as the receiver has checked.
        posted = urllib.request.Request(address, request.body, dict(request.headers), method="POST")  # noqa: S310
        with opener.open(posted, timeout=_REQUEST_SECONDS):
            return Answer()
    except urllib.error.HTTPError as error:
        with error:
            return _answer_of(error, receiver)
    except (OSError, HTTPException, ValueError) as error:
        why = getattr(error, "reason", None) or error
        return Answer(f"it cannot be reached: {why or type(error).__name__}")


def _answer_of(error: urllib.error.HTTPError, receiver: Receiver) -> Answer:
    try:
        text = error.read(_ANSWER_BYTES).decode("utf-8", "replace")
    except (OSError, HTTPException):
        text = ""
    said = "".join(letter if letter.isprintable() else " " for letter in text).strip()
    trouble = f"it answers {error.code}{f': {said}' if said else ''}"
    if error.code in _LOGIN:
        secret = receiver.secret_file or "none was given: --webhook-secret-file FILE"
        trouble += (
            f"; its secret has expired or is wrong ({secret}); a changed file is read at the next attempt"
        )
    elif error.code < 400:
        trouble += "; it has another address now: give that one to --webhook"
    after = error.headers.get("retry-after", "")
    return Answer(
        trouble,
        is_refused=400 <= error.code < 500 and error.code not in _NOT_ABOUT_THE_EVENT,
        pause_ms=1_000 * int(after) if after.isascii() and after.isdecimal() and len(after) < 6 else 0,
    )


class _Subject(msgspec.Struct):
    subject: str = ""


_subjects: Final = MessageDecoder[_Subject](_Subject)


def _subject(event: bytes) -> str:
    head = _subjects.decode(event)
    return "" if head is None else head.subject


def _monotonic_ms() -> int:
    return int(time.monotonic() * 1_000)


@dataclass(slots=True, kw_only=True)
class Webhook:
    """An outlet to one receiver, with a thread of its own between ``start`` and ``close``.

    ``attempt`` sends one event. ``lost`` counts those that found no place in memory.
    """

    receiver: Receiver
    wanted: Callable[[bytes], bool] = lambda _: True
    attempt: Callable[[Receiver, bytes], Answer | None] = post
    clock_ms: Callable[[], int] = _monotonic_ms
    name: str = "webhook"
    lost: int = 0
    deliveries: Deliveries = field(default_factory=Deliveries)
    _arrived: list[int] = field(default_factory=list, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _thread: Background = field(init=False)

    def __post_init__(self) -> None:
        self._thread = Background(
            name="webhook",
            tick=self.send_due,
            pause_seconds=0.5,
            retry_seconds=1.0,
            longest_seconds=60.0,
            failing="the receiver of events cannot be served",
        )

    def start(self) -> None:
        """Begins to send."""
        self._thread.start(at_once=True)

    def close(self, seconds: float = 1.0) -> None:
        """Sends for so long what waits, then ends; says how many events have not arrived."""
        ends = time.monotonic() + seconds
        while self.deliveries.waiting and not self.deliveries.trouble and time.monotonic() < ends:
            self._thread.wait(0.05)
        self._thread.close(max(0.0, ends - time.monotonic()))
        if self.deliveries.waiting:
            waiting = counted_verb(self.deliveries.waiting, "event", "has", "have")
            log.warning("%s not reached %s", waiting, self.receiver.where)

    def choose(self, rows: Sequence[OutputRow], events: Iterable[bytes]) -> Iterable[bytes]:
        """The events that are wanted, and of which the receiver has a use."""
        del rows
        return [event for event in events if self.wanted(event) and self.receiver.form(event, "") is not None]

    def send(self, messages: Mapping[int, bytes]) -> None:
        """Adds them to those that wait."""
        with self._lock:
            for number, event in messages.items():
                if self.deliveries.waiting < MOST_WAITING:
                    self.deliveries.add(Waiting(number, _subject(event), event))
                else:
                    self.lost += 1
                    self._arrived.append(number)
        if self.lost:
            lost = counted_verb(self.lost, "event", "is", "are")
            log.error("%s lost: more than %d wait for %s", lost, MOST_WAITING, self.receiver.where)
        if messages:
            self._thread.wake()

    def arrived(self) -> Sequence[int]:
        """The events that have reached the receiver since the last call."""
        with self._lock:
            arrived, self._arrived = self._arrived, []
        return arrived

    def send_due(self) -> None:
        """Sends what is due now, until nothing is."""
        while not self._thread.is_closed:
            with self._lock:
                waiting = self.deliveries.due(self.clock_ms())
            if waiting is None:
                return
            answer = self.attempt(self.receiver, waiting.event) or Answer()
            with self._lock:
                before, aside = self.deliveries.trouble, self.deliveries.set_aside
                self.deliveries.note(waiting, answer, self.clock_ms())
                if not answer.trouble:
                    self._arrived.append(waiting.number)
                self._say(before, aside, answer)

    def _say(self, before: str, aside: int, answer: Answer) -> None:
        """Once for each outage, and for each event that is set aside."""
        where, deliveries = self.receiver.where, self.deliveries
        if deliveries.set_aside > aside and answer.is_refused:
            log.warning(
                "the receiver %s refuses an event, %s; it is kept, with later ones of its group (%d in all), and tried "
                "again ever more rarely",
                where,
                answer.trouble,
                deliveries.set_aside,
            )
        elif answer.trouble and not before:
            log.warning(
                "no event reaches %s, %s; %d wait, and are tried again",
                where,
                answer.trouble,
                deliveries.waiting,
            )
        elif before and not answer.trouble and not deliveries.set_aside:
            log.warning("events reach %s again; %d wait", where, deliveries.waiting)
