"""The limit drivers that come with the service."""
