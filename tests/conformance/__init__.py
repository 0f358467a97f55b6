"""Upstream Placement's own HTTP tests, run against our application.

The YAML files stay where the ``openstack-placement`` wheel puts them; what
their fixture names promise is built by ``gabbi_fixtures.py``.
"""
