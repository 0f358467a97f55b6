"""The reservation plugins that come with the service."""
