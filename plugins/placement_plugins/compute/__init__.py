"""The compute drivers that come with the service."""
