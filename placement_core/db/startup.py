"""A process that starts waits for its database, which may start at the same moment."""

from __future__ import annotations

import logging
import time

from placement_core import errors
from placement_core.db.database import Database
from placement_core.db.failures import describe_error, is_of_database
from placement_core.masking import MASK

LOG = logging.getLogger(__name__)


def wait_for_answer(database: Database, *, retries: int, interval_seconds: int) -> None:
    """Return once the database accepts a connection. That of an SQLite file is not tried.

    Each attempt takes no longer than the network timeout.

    :param retries: how many more attempts follow the first; -1: as many as it takes.
    :raises errors.ConfigurationError: it never did; one line with what it said last.
    """
    if database.dialect == "sqlite":
        return
    started, attempts = time.monotonic(), 1
    while True:
        try:
            database.probe()
        except Exception as error:
            if not is_of_database(error):
                raise
            reason = _describe(database, error)
            if attempts - 1 == retries:
                raise errors.ConfigurationError(
                    f"{database.settings.named} = {database.masked_url}: the database does not "
                    f"answer; gave up after {attempts} attempts in "
                    f"{time.monotonic() - started:.0f} s (max_retries, retry_interval): {reason}"
                ) from error
            LOG.warning("the database %s does not answer; asking again in %d s: %s",
                        database.masked_url, interval_seconds, reason)
        else:
            return
        attempts += 1
        time.sleep(interval_seconds)


def _describe(database: Database, error: Exception) -> str:
    reason = describe_error(error)
    password = str(database.url.password or "")
    return reason.replace(password, MASK) if password else reason
