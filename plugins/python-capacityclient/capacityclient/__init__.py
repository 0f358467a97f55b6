"""A client of the capacity API of placement-core, over HTTP alone."""
