"""What a worker tells monitoring beside what it counts (``metrics.py``), and the page of both.

``page``      what Prometheus scrapes
``state``     numbers of the whole service, read from the database when somebody asks
``process``   numbers of this process, which it notes every few seconds
``audit``     whether what is stored adds up
``quota``     how full quotas are
``stranded``  how often usual requests fit, and what none of them can use
"""
