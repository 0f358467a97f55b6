"""The catalog drivers that come with the service."""
