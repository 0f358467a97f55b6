"""The log, set up as the options say."""

from __future__ import annotations

import logging

from oslo_config import cfg
from oslo_log import log as oslo_logging

from placement_core.safe_logging import protect


def set_up(options: cfg.ConfigOpts) -> None:
    """Log as ``options`` say, in this process."""
    oslo_logging.setup(options, "placement")
    logging.captureWarnings(True)
    # The file that log_config_append names may give any logger a handler.
    loggers = [logging.root, *logging.root.manager.loggerDict.values()]
    for logger in loggers:
        if isinstance(logger, logging.Logger):
            protect(logger.handlers)
