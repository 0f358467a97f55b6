"""The service while its database is away, hangs or conflicts."""
