"""Limit enforcement as a library for other services, in the shape of oslo.limit.

The modules have oslo.limit's names, so that a service moves over by changing its
imports: ``limit`` (the ``Enforcer``), ``exception`` and ``opts``. Needs none of what
the server needs: no Pyramid, no SQLAlchemy.
"""

from placement_core.enforcer.connection import Connection
from placement_core.enforcer.exception import OverLimitInfo, ProjectOverLimit, SessionInitError
from placement_core.enforcer.limit import Enforcer, ProjectUsage

__all__ = [
    "Connection", "Enforcer", "OverLimitInfo", "ProjectOverLimit", "ProjectUsage",
    "SessionInitError",
]
