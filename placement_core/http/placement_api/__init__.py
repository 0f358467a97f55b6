"""The Placement API of OpenStack, every route at every microversion."""
