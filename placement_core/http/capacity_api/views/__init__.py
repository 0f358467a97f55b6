"""One module for each noun of the capacity API."""
