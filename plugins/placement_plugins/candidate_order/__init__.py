"""The orders of allocation candidates that come with the service."""
