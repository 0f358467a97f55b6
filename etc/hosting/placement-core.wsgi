# What Apache's mod_wsgi runs (etc/hosting/apache.conf).
from placement_core.wsgi import application  # noqa: F401
