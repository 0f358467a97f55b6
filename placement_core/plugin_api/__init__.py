"""The interfaces of all kinds of drivers, and the loader that finds drivers."""
