"""The API of our own, ``/capacity/v1``: what the wire-exact APIs have no room for."""
