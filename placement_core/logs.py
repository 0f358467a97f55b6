"""The log, set up as the options say."""

from __future__ import annotations

import logging

from oslo_config import cfg
from oslo_log import log as oslo_logging

from placement_core.line_buffer import buffer_lines
from placement_core.safe_logging import protect


def set_up(options: cfg.ConfigOpts, *, buffered: bool = False) -> None:
    """Log as ``options`` say, in this process.

    :param buffered: lines are written together, up to 20 ms late (``line_buffer``): for a process
        that ends as Python does, or loses them.
    """
    oslo_logging.setup(options, "placement")
    logging.captureWarnings(True)
    # The file that log_config_append names may give any logger a handler.
    loggers = [logging.root, *(
        logger for logger in logging.root.manager.loggerDict.values()
        if isinstance(logger, logging.Logger))]
    for logger in loggers:
        protect(logger.handlers)
    if buffered:
        buffer_lines(loggers)
