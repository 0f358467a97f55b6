"""Whether a database answers: known in one place, found out once for all requests.

Nobody waits for a database without a bound. A connection that cannot be made within the
network timeout begins an *outage*. So does a server that takes no statements (a node that has
left its Galera cluster), and a silent one: once a connection has been in
use for a moment, the *watch* makes another one; if that takes longer than the network
timeout, the server hangs, and the threads that wait for it are woken up. During an outage
only a *probe* goes to the database, and ends the outage when it connects. Statements that
take long on a server that answers are left alone: the server bounds them itself. It does not
bound a COMMIT, which may wait for other servers: the watch aborts it after a while.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from placement_core import errors
from placement_core.db import drivers
from placement_core.db.failures import ConnectionLost, describe_error, is_not_ready, translate
from placement_core.masking import MASK

LOG = logging.getLogger(__name__)

#: A restart or a failover that is over by then is not noticed by clients: they wait.
GRACE_SECONDS = 2.0
#: Between two probes during an outage.
_PROBE_SECONDS = 0.5
#: A connection that has been in use for longer is a reason to look after the server.
_SUSPICIOUS_SECONDS = 1.0
#: How often the watch looks.
_WATCH_SECONDS = 0.5


class Away(errors.Unavailable):
    """The database is known not to answer; it was not asked."""

    retry_after_seconds = 2

    def __init__(self) -> None:
        super().__init__("The database does not answer; please try again.")


class _Outage:
    """A time in which the database does not answer.

    :ivar since: the monotonic time at which it began.
    :ivar error: how it showed.
    :ivar over: set when the database answers.
    :ivar logged: whether the log tells of it: not if one probe was enough to end it.
    """

    def __init__(self, since: float, error: Exception) -> None:
        self.since = since
        self.error = error
        self.over = threading.Event()
        self.logged = False


class Availability:
    """What this process knows about one database; any thread may ask.

    :param name: of the database, for the log.
    :param probe: connects once, within ``silence_seconds``, and finds out whether statements are
        taken.
    :param password: is not shown in the log, whatever a driver says.
    :param silence_seconds: for how long a server may say nothing to a new connection;
        0: it is not watched.
    :param grace_seconds: for how long an outage may last before anybody is told of it;
        None: everybody finds out, and who waits for a silent server is woken up all the same.
    """

    def __init__(
        self, name: str, probe: Callable[[], None], password: str, silence_seconds: float,
        grace_seconds: float | None,
    ) -> None:
        self._name = name
        self._grace_seconds = grace_seconds
        self._probe = probe
        self._password = password
        self._silence_seconds = silence_seconds
        self.forget()
        _ALL.append(weakref.ref(self, _ALL.remove))

    def forget(self) -> None:
        """Know nothing, as in a process that was just forked."""
        self._lock = threading.Lock()
        self._outage: _Outage | None = None
        self._in_use: dict[int, tuple[Any, float]] = {}
        self._setting_up = threading.local()
        self._bounded: dict[int, tuple[Any, float]] = {}
        self._looked_at = 0.0
        self._looking = False
        self._watched = False
        self._resets = 0

    def reset(self) -> None:
        """End an outage: the next connection shows how things are.

        What a probe that is on its way finds out is not told any more.
        """
        with self._lock:
            outage, self._outage = self._outage, None
            self._resets += 1
        if outage is not None:
            outage.over.set()

    @property
    def is_away(self) -> bool:
        """Whether the database is known not to answer."""
        return self._outage is not None

    @property
    def is_troubled(self) -> bool:
        """Whether it is away, or somebody has been waiting for it for a while."""
        return self.is_away or self._compute_longest_use() > _SUSPICIOUS_SECONDS

    def require(self) -> None:
        """Let nobody pass who would only wait; at the beginning of an outage, wait for its end.

        :raises Away: the database does not answer.
        """
        outage = self._outage
        if outage is None or self._grace_seconds is None:
            return
        patience = outage.since + self._grace_seconds - time.monotonic()
        if patience <= 0 or not outage.over.wait(patience):
            raise Away from outage.error

    @contextlib.contextmanager
    def connecting(self) -> Iterator[None]:
        """Note an outage if the database cannot be connected to."""
        try:
            yield
        except Exception as error:
            if self._silence_seconds and isinstance(translate(error), ConnectionLost):
                self._begin_outage(time.monotonic(), error)
            raise

    def notice(self, error: Exception) -> None:
        """Note an outage if a statement's error says that the server takes none."""
        if self._silence_seconds and is_not_ready(error):
            self._begin_outage(time.monotonic(), error)

    @contextlib.contextmanager
    def bounded(self, connection: Any, seconds: float) -> Iterator[None]:
        """Abort a connection if what is done on it takes longer, give or take a second.

        :param connection: the driver's.
        :param seconds: 0: there is no bound.
        """
        if not seconds:
            yield
            return
        self._bounded[id(connection)] = connection, time.monotonic() + seconds
        self._have_watched()
        try:
            yield
        finally:
            self._bounded.pop(id(connection), None)

    @contextlib.contextmanager
    def checking_out(self) -> Iterator[None]:
        """Take a connection from a pool: one that cannot be set up is not in use any more."""
        try:
            yield
        except BaseException:
            self.end_use(getattr(self._setting_up, "connection", None))
            raise
        finally:
            self._setting_up.connection = None

    def begin_set_up(self, connection: Any) -> None:
        """Note that a thread uses a new connection for what it is set up with.

        Pools tell nobody if that fails.
        """
        self._setting_up.connection = connection
        self.begin_use(connection)

    def begin_use(self, connection: Any) -> None:
        """Note that a thread uses a connection; ``end_use`` when it is done."""
        self._in_use[id(connection)] = connection, time.monotonic()
        if self._silence_seconds:
            self._have_watched()

    def _have_watched(self) -> None:
        if not self._watched:
            self._watched = _watch.start()

    def end_use(self, connection: Any) -> None:
        """Note that a connection is not in use, or is none any more."""
        self._in_use.pop(id(connection), None)

    def look_after(self) -> None:
        """Abort what takes too long; if somebody waits, find out whether the server hangs.

        For the watch.
        """
        now = time.monotonic()
        for connection, until in list(self._bounded.values()):
            if until <= now:
                drivers.abort(connection)
        if (not self._silence_seconds or self._looking or self.is_away
                or now - self._looked_at < 2 * _SUSPICIOUS_SECONDS
                or self._compute_longest_use() < _SUSPICIOUS_SECONDS):
            return
        self._looking, self._looked_at = True, now
        if not _start(self._probe_once, "database probe"):
            self._looking = False

    def _probe_once(self) -> None:
        began, resets = time.monotonic(), self._resets
        try:
            self._probe()
        except Exception as error:  # noqa: BLE001  whatever it is, requests meet it themselves.
            if isinstance(translate(error), ConnectionLost) and resets == self._resets:
                self._log(self._begin_outage(began, error))
                self._wake_up(began)
        finally:
            self._looking = False

    def _begin_outage(self, since: float, error: Exception) -> _Outage:
        """Send nobody to the database until a probe says that it answers."""
        with self._lock:
            if self._outage is not None:
                return self._outage
            outage = self._outage = _Outage(since, error)
        if not _start(self._end_outage, "database probe", outage):
            self.reset()
        return outage

    def _log(self, outage: _Outage) -> None:
        """Tell once that an outage began."""
        if not outage.logged:
            outage.logged = True
            LOG.warning("%s does not answer; requests are refused until it does: %s",
                        self._name, self._mask_error(outage.error))

    def _mask_error(self, error: Exception) -> str:
        text = describe_error(error)
        return text.replace(self._password, MASK) if self._password else text

    def _end_outage(self, outage: _Outage) -> None:
        """Probe until the database answers, or nobody wants to know."""
        try:
            self._wait_for_answer(outage)
        finally:
            # Whatever happened: an outage during which nobody probes would never end.
            ends = self._outage is outage
            if ends:
                self.reset()
        if ends and outage.logged:
            LOG.warning("%s answers again after %.1f seconds", self._name,
                        time.monotonic() - outage.since)

    def _wait_for_answer(self, outage: _Outage) -> None:
        while True:
            time.sleep(_PROBE_SECONDS)
            if self._outage is not outage:
                return
            began = time.monotonic()
            try:
                self._probe()
            except Exception as error:  # noqa: BLE001  the same
                if self._outage is not outage:
                    return
                if isinstance(translate(error), ConnectionLost):
                    self._log(outage)
                    self._wake_up(began)
                    continue
                # It answers, if only to say that it is full.
                LOG.warning("%s refuses connections: %s", self._name, self._mask_error(error))
            return

    def _wake_up(self, probed_at: float) -> None:
        """Abort what has been waited for in vain, if it is a silent server that failed the probe.

        Where it was refused at once, what still runs may end well.
        """
        now = time.monotonic()
        silent = now - probed_at > self._silence_seconds / 2
        longest = probed_at if silent else now - self._silence_seconds
        for connection, since in list(self._in_use.values()):
            if since <= longest:
                drivers.abort(connection)

    def _compute_longest_use(self) -> float:
        started = [since for _, since in list(self._in_use.values())]
        return time.monotonic() - min(started) if started else 0.0


def _start(target: Callable[..., None], name: str, *args: object) -> bool:
    """Start a thread; return whether there could be one more."""
    try:
        threading.Thread(target=target, args=args, name=name, daemon=True).start()
    except RuntimeError:
        LOG.warning("no thread can be started that finds out whether a database answers")
        return False
    return True


class _Watch:
    """The thread that looks after every database of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._started = False

    def start(self) -> bool:
        """Start it unless it runs; return whether it does."""
        with self._lock:
            self._started = self._started or _start(self._run, "database watch")
            return self._started

    @staticmethod
    def _run() -> None:
        while True:
            time.sleep(_WATCH_SECONDS)
            _look_after_all()


#: Weak references, in a list that can be copied while another thread adds to it.
_ALL: list[weakref.ref[Availability]] = []
_watch = _Watch()


def _list_all() -> list[Availability]:
    availabilities = [ref() for ref in list(_ALL)]
    return [availability for availability in availabilities if availability is not None]


def _look_after_all() -> None:
    # A function of its own: a sleeping thread must not hold the last database of the list.
    for availability in _list_all():
        availability.look_after()


def _forget_after_fork() -> None:
    global _watch
    _watch = _Watch()
    for availability in _list_all():
        availability.forget()


os.register_at_fork(after_in_child=_forget_after_fork)
