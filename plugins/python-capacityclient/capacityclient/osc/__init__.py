"""Commands of the ``openstack`` client."""
