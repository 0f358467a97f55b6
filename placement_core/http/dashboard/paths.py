"""Where the dashboard is, below the mount point of the application."""

PREFIX = "/dashboard"
LOGIN = f"{PREFIX}/login"
LOGOUT = f"{PREFIX}/logout"
#: Below ``PREFIX``.
STATIC = "/static"


def is_below(path: str) -> bool:
    """Say whether a path belongs to the dashboard."""
    return path == PREFIX or path.startswith(f"{PREFIX}/")
