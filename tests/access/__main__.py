"""``python -m tests.access``: write the table of who may do what anew."""

from __future__ import annotations

import logging
import sys

from tests import keystone_service
from tests.access import table

if not keystone_service.INSTALLED:
    sys.exit("The table is made with a Keystone, and none is installed: pip install keystone")
logging.disable(logging.CRITICAL)
table.FILE.write_text(table.render(table.play(keystone_service.shared())))
