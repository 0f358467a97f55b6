"""Changes which side answers: either that happens, or nothing has.

All is compared while requests go on. Then new requests wait, those that run and the queue
of writes come to their end, and only what differed or was written since is compared again.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Mapping

from placement_core.shadow import modes, rereading
from placement_core.shadow.errors import NotSwitched, WrongMode
from placement_core.shadow.following import Follower
from placement_core.shadow.messages import NoAnswer
from placement_core.shadow.modes import Mode
from placement_core.shadow.state import State
from placement_core.shadow.touched import Key, describe

#: How many objects are compared at a time, and named when they differ.
_SIDE_BY_SIDE = 8
_MOST_NAMED = 5
#: How often what differs is looked at again before requests wait for it, and after how long.
_LOOKS, _LOOK_SECONDS = 5, 0.5
#: How long writes may take that wait when a switch begins.
_CATCH_UP_SECONDS = 300.0


class Gate:
    """Lets requests pass, or wait."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()
        self._idle = asyncio.Event()
        self._idle.set()
        self._inside = 0

    async def enter(self) -> None:
        """Wait until the gate is open, and be inside until ``leave``."""
        while not self._open.is_set():
            await self._open.wait()
        self._inside += 1
        self._idle.clear()

    def leave(self) -> None:
        """Be outside again."""
        self._inside -= 1
        if not self._inside:
            self._idle.set()

    @contextlib.asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Let new requests wait; enter when nobody is inside."""
        self._open.clear()
        try:
            await self._idle.wait()
            yield
        finally:
            self._open.set()


@dataclasses.dataclass(frozen=True, slots=True)
class Switched:
    """A switch that happened, or would have.

    :ivar seconds: for how long requests waited.
    :ivar compared: how many objects were compared while they did.
    :ivar differing: those that were not the same.
    """

    mode: Mode
    seconds: float
    compared: int
    differing: tuple[str, ...]


class Switch:
    """Changes the mode of a proxy.

    :param gate: where its requests pass.
    :param has_limits: whether limits are to be compared, too.
    """

    def __init__(
        self, state: State, follower: Follower, gate: Gate, *, has_limits: bool
    ) -> None:
        self._has_limits = has_limits
        self._state = state
        self._follower = follower
        self._gate = gate
        self._lock = asyncio.Lock()

    async def flip(
        self, steps: Mapping[Mode, Mode], *, hold_seconds: float, max_differences: int,
        dry_run: bool, report: rereading.Report,
    ) -> Switched:
        """Let the other side answer.

        :param steps: {mode: the one that follows}: modes.SWITCH or modes.REVERSE.
        :param dry_run: whether to do all but that.
        :raises WrongMode: the mode is another.
        :raises NotSwitched: the sides differ, one did not answer, or the hold was too short.
        """
        async with self._lock:
            mode = self._find_next(steps)
            self._follower.compares = False
            try:
                await self._catch_up(report)
                # What is compared before it is applied says nothing.
                self._follower.written = set(self._state.list_under_way())
                suspects = await self._compare_all(max_differences, report)
                await self._catch_up(report)
                report("requests wait", 0, 1)
                return await self._hold(
                    mode, suspects, hold_seconds, max_differences, dry_run=dry_run)
            except NoAnswer as error:
                raise NotSwitched(f"a side does not answer: {error}") from error
            except rereading.Refused as error:
                raise NotSwitched(f"the sides cannot be compared: {error}") from error
            finally:
                self._follower.written = None
                self._follower.compares = True

    async def stop_following(self, steps: Mapping[Mode, Mode]) -> Mode:
        """Write only the side that answers from now on.

        The same side answers before and after, so no request has to wait for that, or be waited
        for: what one that is under way wrote is not applied to the other side.

        :param steps: modes.COMPLETE or modes.CANCEL.
        :raises WrongMode: the mode is another.
        """
        async with self._lock:
            mode = self._find_next(steps)
            self._state.set_mode(mode)
            return mode

    async def _catch_up(self, report: rereading.Report) -> None:
        if not await self._follower.catch_up(_CATCH_UP_SECONDS, report):
            raise NotSwitched(
                f"after {_CATCH_UP_SECONDS:g} seconds too many writes wait still for the side "
                "that follows; it is slower than they come")

    async def _compare_all(
        self, max_differences: int, report: rereading.Report
    ) -> set[Key]:
        """Compare everything while requests go on; return what has to be looked at again.

        What differs is read again: nobody may have asked for it since the shadow began.
        """
        clients = self._require_clients()
        suspects = await rereading.find_differences(*clients, report)
        if self._has_limits:
            suspects |= await rereading.find_differing_limits(*clients)
        suspects |= set(self._state.marks)
        lasting = sorted(suspects)
        for _ in range(_LOOKS):
            # What is being written just now is no difference yet.
            written = self._follower.written or ()
            lasting = [key for key in lasting if key not in written
                       and not await rereading.is_same(*clients, key)]
            if not lasting:
                break
            await self._follower.reread(lasting)
            await asyncio.sleep(_LOOK_SECONDS)
        if len(lasting) <= max_differences:
            return suspects
        raise NotSwitched(_describe_differences(lasting, max_differences))

    async def _hold(
        self, mode: Mode, suspects: set[Key], hold_seconds: float, max_differences: int, *,
        dry_run: bool,
    ) -> Switched:
        clock = asyncio.get_running_loop().time
        started = clock()
        try:
            async with asyncio.timeout(hold_seconds), self._gate.held():
                await self._follower.drain()
                suspects |= (self._follower.written or set()) | set(self._state.marks)
                differing = await self._compare(suspects)
                if len(differing) > max_differences:
                    raise NotSwitched(_describe_differences(differing, max_differences))
                if not dry_run:
                    self._state.set_mode(mode)
        except TimeoutError as error:
            raise NotSwitched(
                f"it was not done within --hold {hold_seconds:g} seconds") from error
        return Switched(
            mode, clock() - started, len(suspects), tuple(describe([key]) for key in differing))

    async def _compare(self, keys: set[Key]) -> list[Key]:
        clients = self._require_clients()
        turns = asyncio.Semaphore(_SIDE_BY_SIDE)

        async def compare(key: Key) -> bool:
            async with turns:
                return await rereading.is_same(*clients, key)

        ordered = sorted(keys)
        same = await asyncio.gather(*map(compare, ordered))
        return [key for key, is_same in zip(ordered, same, strict=True) if not is_same]

    def _require_clients(self) -> tuple[rereading.Client, rereading.Client]:
        clients = self._follower.make_clients()
        if clients is None:
            raise NotSwitched(
                "there is no token to compare with: no write has passed yet; start the proxy "
                "with --token-file")
        return clients

    def _find_next(self, steps: Mapping[Mode, Mode]) -> Mode:
        mode = self._state.mode
        if mode not in steps:
            raise WrongMode(mode, f"Next: {mode.next_step}")
        return steps[mode]


#: What each command of ``control`` changes.
FLIPS = {"switch": modes.SWITCH, "reverse": modes.REVERSE}
STOPS = {"complete": modes.COMPLETE, "cancel": modes.CANCEL}


def _describe_differences(keys: list[Key], most: int) -> str:
    named = describe(sorted(keys)[:_MOST_NAMED])
    more = f" and {len(keys) - _MOST_NAMED} more" if len(keys) > _MOST_NAMED else ""
    return f"{len(keys)} objects differ, --max-differences is {most}: {named}{more}"
