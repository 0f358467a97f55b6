"""One module for each noun of ``/v1``."""
