"""Takes over a cloud that runs: what its services know is compared with ours, and copied.

``sources`` opens another service's database, ``keystone`` makes records of one, ``comparison``
says what differs from ours, and ``copying`` brings ours to it. Records keep the ids that they have
there, so that everything can be repeated.
"""
