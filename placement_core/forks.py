"""What a process that was forked does first: locks and threads stayed with its parent."""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

LOG = logging.getLogger(__name__)

T = TypeVar("T")

_FUNCTIONS: weakref.WeakKeyDictionary[Any, Callable[[Any], None]] = weakref.WeakKeyDictionary()


def call_in_child(owner: T, function: Callable[[T], None]) -> None:
    """Call a function with an object in each process that is forked while the object lives.

    ``os.register_at_fork`` would keep the object for ever, with all that it refers to.
    """
    _FUNCTIONS[owner] = function


def _call_all() -> None:
    for owner, function in list(_FUNCTIONS.items()):
        try:
            function(owner)
        except Exception:  # The others still have locks of the parent.
            LOG.exception("%s is not renewed in a forked process", type(owner).__name__)


os.register_at_fork(after_in_child=_call_all)
