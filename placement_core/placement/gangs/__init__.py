"""Gangs: where several equal members fit together, near each other or apart.

``requests`` says what is asked, ``levels`` which hosts are near each other, ``copies`` how many
members each host can take, ``planner`` chooses hosts, and ``search`` puts these together.
"""
