"""The dashboard: pages for people, which show what the caller may read and change nothing."""
