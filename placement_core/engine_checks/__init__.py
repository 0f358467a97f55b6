"""The contract that a database engine must hold for this service to be correct, as checks.

``checks.CHECKS`` is the table of them, ``runner.run`` carries them out. A check is a function
of a ``Trial``: it does something with tables of its own, on connections that are opened as the
service opens them, and compares what it sees. The modules group checks by subject.
"""
