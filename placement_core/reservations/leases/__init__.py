"""Leases: made, changed, started, ended and read.

``service``         makes, changes and ends leases: planned, judged, committed
``requests``        what clients ask, checked by plugins
``plans``           what a lease gets, new or changed; nothing is written
``lease_queries``   reads leases: one, pages of them, their versions
``transitions``     a lease starts, is about to end, ends: one event, one transaction
``dates``           which dates make sense
``schemas``         what plugins let clients send
``updates``         what a changed lease is, and what is written then
``notifications``   what was done to leases, for those who want to know
``history``         who held which hosts, and how it is forgotten
``rendered_texts``  leases as clients are shown them, made beforehand
``rendered_cache``  the same, kept in memory
"""
