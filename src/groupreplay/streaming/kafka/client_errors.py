"""librdkafka's errors as messages of this program."""

from __future__ import annotations

import queue
import re
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, NoReturn, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from groupreplay.state.policy.context import OFFSETS_TOPIC
from groupreplay.streaming.base.errors import ExitCode, GroupReplayError, UnreachableError
from groupreplay.streaming.config.properties import iam_options
from groupreplay.streaming.config.settings import Cluster

T = TypeVar("T")

_NO_TOPIC: Final = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC})
_NO_OFFSETS_TOPIC: Final = (
    "the offsets topic is created with the first committed offset; seeing it needs the right Describe"
)

#: No broker answers.
UNREACHABLE: Final = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError._MSG_TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
    }
)
#: The cluster answers, and a partition cannot be read or written at this moment: what Kafka's clients try again.
PARTITION_AWAY: Final = frozenset(
    {
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.NOT_CONTROLLER,
        # The client knew another leader than the one that it asked: a moment after an election.
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        # A new leader does not know the high watermark yet.
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.LISTENER_NOT_FOUND,
        KafkaError.PREFERRED_LEADER_NOT_AVAILABLE,
        KafkaError.ELIGIBLE_LEADERS_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.CONCURRENT_TRANSACTIONS,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError.THROTTLING_QUOTA_EXCEEDED,
    }
)

#: The broker or the client refuses the connection itself: no further try helps.
_REFUSED: Final = frozenset(
    {KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED, KafkaError._SSL}
)
#: With TLS 1.3 a broker that refuses the client's certificate, or misses one, says so behind the handshake.
_OF_TLS: Final = re.compile(r"in state SSL_HANDSHAKE|SSL alert number \d+")
#: librdkafka's words about a refused connection -> our sentence, and what to change in the file that the user wrote.
_REFUSALS: Final = (
    (
        re.compile(r"certificate verify failed"),
        "the broker's certificate is not trusted",
        "name the CA that signed it, ssl.truststore.type=PEM and ssl.truststore.location=ca.pem in the "
        "--command-config file, and use an address that is in the certificate",
    ),
    (
        re.compile(r"Unsupported SASL mechanism"),
        "the broker does not know this kind of login",
        "set sasl.mechanism in the --command-config file to one of the broker's, which the error names",
    ),
    (
        re.compile(r"not valid in current SASL state"),
        "the broker expects no login at this address",
        "set security.protocol=PLAINTEXT or SSL in the --command-config file, or use the port for logins",
    ),
    (
        re.compile(r"in state SSL_HANDSHAKE\)$"),
        "the broker does not answer with TLS at this address",
        "set security.protocol=PLAINTEXT or SASL_PLAINTEXT in the --command-config file, or use the port for TLS",
    ),
)
_LOGIN: Final = (
    "the broker refused the login",
    "check the user and the password in sasl.jaas.config of the --command-config file",
)
_IAM_LOGIN: Final = (
    "the brokers refused the login by IAM",
    "allow kafka-cluster:Connect on the cluster in IAM; groupreplay check prints the whole policy, and "
    "aws sts get-caller-identity tells who asks",
)
_TLS: Final = (
    "the connection with TLS failed",
    "check security.protocol and the certificates (ssl.truststore.*, ssl.keystore.*) in the --command-config file",
)
_NO_TLS: Final = "the broker expects TLS at this address, and security.protocol is one without TLS"
_USE_TLS: Final = (
    "name a client properties file with security.protocol=SASL_SSL or SSL: --command-config FILE"
)
_HANGS_UP: Final = "the broker ends connections and gives no reason"
_MAY_WANT_A_LOGIN: Final = (
    "check security.protocol and sasl.* in the --command-config file: "
    "a listener for logins ends connections without one"
)
_TLS_SECONDS: Final = 3.0
#: How often it is looked whether the brokers have refused a client that waits, in seconds.
_NOTE_SECONDS: Final = 0.05
#: A broker that has just started may refuse a login once.
_REFUSALS_ENOUGH: Final = 2

#: Error codes of librdkafka -> message, what to do, and exit code.
_EXPLANATIONS: Final = (
    (
        {
            KafkaError.TOPIC_AUTHORIZATION_FAILED,
            KafkaError.CLUSTER_AUTHORIZATION_FAILED,
            KafkaError.GROUP_AUTHORIZATION_FAILED,
        },
        "not authorised",
        "groupreplay check shows which right is missing, and the command that grants it",
        ExitCode.AUTHORISATION,
    ),
    (
        _NO_TOPIC,
        "the topic does not exist, or this login may not see it",
        "groupreplay run creates the job's topics; seeing a topic needs the right Describe",
        ExitCode.DATA,
    ),
    (
        UNREACHABLE,
        "cannot reach the cluster",
        "check the address, that the broker runs, and security.protocol in the --command-config file",
        ExitCode.CONNECTION,
    ),
    (
        PARTITION_AWAY,
        "the cluster cannot serve a partition now",
        "check that all brokers run, and min.insync.replicas",
        ExitCode.CONNECTION,
    ),
)


def ends_reading(error: KafkaError) -> bool:
    """Whether a reader must give up after an error that arrived instead of a record.

    The end of a partition is not such an error. Nor is a refusal about the group: librdkafka looks up the
    coordinator of the group id that it requires, but reading by assignment does not need that coordinator.
    """
    harmless = (KafkaError._PARTITION_EOF, KafkaError.GROUP_AUTHORIZATION_FAILED)
    return error.code() not in harmless and not error.retriable()


def is_refused(error: KafkaError) -> bool:
    """Whether the connection itself is refused: by the login, a certificate, or because only one side speaks TLS."""
    return error.code() in _REFUSED or (
        error.code() == KafkaError._TRANSPORT and _OF_TLS.search(error.str()) is not None
    )


class Notes:
    """What a client of librdkafka has reported in the background, to ``take``: often the real cause of an error."""

    def __init__(self, cluster: Cluster) -> None:
        self._servers = cluster.bootstrap_servers
        self._speaks_tls = "SSL" in cluster.properties.get("security.protocol", "").upper()
        self._by_iam = iam_options(cluster.properties) is not None
        self._cause: KafkaError | None = None
        self._all_are_down = False
        self._refusals = 0

    def take(self, error: KafkaError) -> None:
        """The callback for errors."""
        # "All brokers down" follows the error with the reason, and must not replace it.
        if self._cause is None or error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._cause = error
        self._all_are_down |= error.code() == KafkaError._ALL_BROKERS_DOWN
        self._refusals += is_refused(error)

    def explained(self, cause: Any, where: str) -> GroupReplayError:
        """The error for what a request has raised."""
        code = cause.code() if isinstance(cause, KafkaError) else None
        if code in UNREACHABLE and self._cause is not None:
            cause = self._cause
            if self._must_speak_tls():
                place = f"{where}, {self._servers}"
                return GroupReplayError(_NO_TLS, where=place, fix=_USE_TLS, exit_code=ExitCode.CONNECTION)
            if self._is_silent():
                place = f"{where}, {self._servers}"
                return UnreachableError(
                    _HANGS_UP, where=place, fix=_MAY_WANT_A_LOGIN, exit_code=ExitCode.CONNECTION
                )
        return explained(cause, where, self._servers, by_iam=self._by_iam)

    def unless_refused(self, request: Callable[[], T], client: AdminClient) -> T:
        """The answer to a request; librdkafka itself goes on trying when every broker refuses the connection.

        Raises:
            KafkaException: what the request raises, or what was noted in the meantime.
        """
        answers: queue.SimpleQueue[Callable[[], T]] = queue.SimpleQueue()
        self._all_are_down, self._refusals = False, 0

        def ask() -> None:
            try:
                answer = request()
            except KafkaException as error:
                failure = error.args[0]
                answers.put(lambda: _fail(failure))
            else:
                answers.put(lambda: answer)

        # A thread, because nothing interrupts the request; it ends with the time-out of the request.
        threading.Thread(target=ask, name="kafka-request", daemon=True).start()
        was_down = False
        while True:
            with suppress(queue.Empty):
                return answers.get(timeout=_NOTE_SECONDS)()
            client.poll(0)  # calls `take`
            is_new, was_down = self._all_are_down and not was_down, self._all_are_down
            if was_down and (self._refusals >= _REFUSALS_ENOUGH or (is_new and self._must_speak_tls())):
                _fail(self._cause)

    def _must_speak_tls(self) -> bool:
        """Whether the brokers hung up without a reason, and answer with TLS."""
        return self._is_silent() and not self._speaks_tls and expects_tls(self._servers)

    def _is_silent(self) -> bool:
        """Whether the brokers hung up just now without a reason: for a failed connection librdkafka has one."""
        is_told = self._cause is not None and self._cause.code() != KafkaError._ALL_BROKERS_DOWN
        return self._all_are_down and not is_told


def _fail(error: Any) -> NoReturn:
    raise KafkaException(error)


def expects_tls(servers: str) -> bool:
    """Whether one of these addresses answers with TLS: on a client without TLS it only hangs up."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for address in servers.split(","):
        host, _, port = address.strip().rpartition(":")
        try:
            with (
                socket.create_connection((host.strip("[]"), int(port)), _TLS_SECONDS) as connection,
                context.wrap_socket(connection, server_hostname=host.strip("[]")),
            ):
                return True
        except ssl.SSLError as error:
            # Only a server with TLS answers with an alert: it may want a client's certificate.
            if "ALERT" in (error.reason or ""):
                return True
        except (OSError, ValueError):  # nobody answers
            continue
    return False


def explained(cause: Any, where: str, servers: str, *, by_iam: bool = False) -> GroupReplayError:
    """The error for what a client of librdkafka has raised or reported, a ``KafkaError`` or another exception.

    ``by_iam``: the login is one by IAM of Amazon MSK.
    """
    is_known = isinstance(cause, KafkaError)
    code, text = cause.code() if is_known else None, first_line(cause.str() if is_known else str(cause))
    if is_known and is_refused(cause):
        refusals = ((what, fix) for words, what, fix in _REFUSALS if words.search(text))
        login = _IAM_LOGIN if by_iam else _LOGIN
        what, fix = next(refusals, _TLS if code in (KafkaError._SSL, KafkaError._TRANSPORT) else login)
        # librdkafka's advice names its own settings, not those of the file.
        text = re.sub(
            r": broker certificate could not be verified, verify that ssl\.ca\.location.*?package\)", "", text
        )
        place = f"{where}, {servers}"
        return GroupReplayError(f"{what}: {text}", where=place, fix=fix, exit_code=ExitCode.CONNECTION)
    for codes, what, fix, exit_code in _EXPLANATIONS:
        if code in codes:
            hint = _NO_OFFSETS_TOPIC if codes is _NO_TOPIC and where.startswith(OFFSETS_TOPIC) else fix
            kind = UnreachableError if codes in (UNREACHABLE, PARTITION_AWAY) else GroupReplayError
            return kind(f"{what}: {text}", where=f"{where}, {servers}", fix=hint, exit_code=exit_code)
    return GroupReplayError(f"Kafka returned an error: {text}", where=where)


def first_line(text: str) -> str:
    """The first line of an error in librdkafka's words."""
    # librdkafka puts the name of its thread first.
    return re.sub(r"^\[thrd:[^\]]*\]:\s*", "", text.strip()).split("\n", 1)[0]
