"""The counting drivers that come with the service."""
