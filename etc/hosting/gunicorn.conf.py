# gunicorn for the WSGI application: gunicorn --config gunicorn.conf.py
#
# Start it with MALLOC_MMAP_THRESHOLD_=33554432, MALLOC_TRIM_THRESHOLD_=67108864 and
# MALLOC_ARENA_MAX=1 in its environment, so that workers keep the memory of a large answer. Put a
# proxy before it (etc/placement/nginx.conf.sample).

wsgi_app = "placement_core.wsgi:application"
bind = "127.0.0.1:8779"
workers = 4
worker_class = "gthread"
# Two more than requests are processed and wait: for health checks, and to refuse others.
threads = 64
raw_env = ["OS_API__MAX_CONCURRENT_REQUESTS=8", "OS_API__MAX_WAITING_REQUESTS=54"]
# Longer than the proxy keeps idle connections (10 s).
keepalive = 20
# Longer than a transaction is repeated or waits for a lock.
timeout = 120
# For how long requests may finish after SIGTERM.
graceful_timeout = 30


def post_worker_init(worker):
    """Build the service before the first request, so that the port answers only when it can."""
    worker.wsgi.load()
