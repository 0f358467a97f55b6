"""Parts of a page that a caller may not read, or that cannot be read now.

Each of them is replaced by a sentence, and the rest of the page is good without it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from placement_core import errors
from placement_core.http.operations import Call

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class Section(Generic[T]):
    """A part of a page.

    :ivar content: None: there is ``trouble`` instead.
    :ivar trouble: a sentence that says why there is no content.
    :ivar passing: whether the trouble may pass, so that the page is read again.
    """

    content: T | None
    trouble: str | None = None
    passing: bool = False


def read(call: Call, rule: str, read_content: Callable[[], T]) -> Section[T]:
    """Read a part of a page.

    :param rule: the policy rule that the caller must pass.
    """
    return read_any(call, [rule], read_content)


def read_any(call: Call, rules: Sequence[str], read_content: Callable[[], T]) -> Section[T]:
    """Read a part of a page that has several sources.

    :param rules: the policy rules of its sources; the caller must pass one of them, and
        ``read_content`` leaves out what the others are for.
    """
    if not any(map(call.allows, rules)):
        names = " and ".join(rules)
        return Section(None, f"You may not read this: the policy rule {names} does not let you.")
    try:
        return Section(read_content())
    except errors.Unavailable as error:
        return Section(None, str(error), passing=True)
