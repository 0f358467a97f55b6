"""The tests: ``make test`` runs everything, ``python -m testtools.run`` one module.

Random worlds are the same in every run, so that a red run can be repeated;
``HYPOTHESIS_PROFILE=explore`` draws new ones, ``brief`` few.
"""

import gc
import os
import signal

import hypothesis

hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None)
hypothesis.settings.register_profile(
    "brief", derandomize=True, deadline=None, max_examples=10)
hypothesis.settings.register_profile("explore", max_examples=2000, deadline=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

# Most tests make objects by the ten thousand, an application among them, and let go of all.
# With Python's 700, looking for cycles so often was a tenth of the time of many.
gc.set_threshold(20_000)

# A shell ignores it for what it runs in the background, and so would all processes that tests
# start, which are to end by it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
