"""Why a shadow does not start, or does not do what it is told."""

from __future__ import annotations

from placement_core import errors


class StateInUse(errors.ConfigurationError):
    """Another proxy keeps its state in the same file."""

    def __init__(self, path: str) -> None:
        super().__init__(f"--state {path}: another proxy runs with it")


class NoState(errors.ConfigurationError):
    """There is no state of a shadow in a file."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"--state {path}: {why}")


class NotRunning(errors.Unavailable):
    """No proxy listens on a control socket."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path}: no proxy answers there; is \"migrate shadow serve\" running, with the same "
            "--state?")


class WrongMode(errors.Conflict):
    """What is asked for does not follow on what the shadow does now."""

    code = "shadow.wrong_mode"

    def __init__(self, mode: str, next_step: str) -> None:
        super().__init__(f"The mode is {mode}. {next_step}")


class NotSwitched(errors.Conflict):
    """A switch did not happen; everything is as it was."""

    code = "shadow.not_switched"

    def __init__(self, why: str) -> None:
        super().__init__(f"Nothing has happened: {why}")


class RefusedByProxy(errors.Conflict):
    """The proxy did not do what it was told; the message is its own."""

    code = "shadow.refused"


class BadOption(errors.ConfigurationError):
    """An option of the proxy is not as expected."""

    def __init__(self, option: str, value: object, expected: str) -> None:
        super().__init__(f"{option} {value}: {expected}")
