"""Limit enforcement as a library for other services, with the interface of oslo.limit.

The modules have oslo.limit's names, so that a service adopts the library by changing its imports:
``limit`` (the ``Enforcer``), ``exception`` and ``opts``. It needs none of the server's
dependencies, such as Pyramid and SQLAlchemy.
"""

from placement_core.enforcer.connection import Connection
from placement_core.enforcer.exception import OverLimitInfo, ProjectOverLimit, SessionInitError
from placement_core.enforcer.limit import Enforcer, ProjectUsage

__all__ = [
    "Connection", "Enforcer", "OverLimitInfo", "ProjectOverLimit", "ProjectUsage",
    "SessionInitError",
]
