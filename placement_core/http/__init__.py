"""The engine that serves APIs, and one room for each of them.

The engine knows none of them: ``apis`` says what an API is, ``operations`` what a route is,
``app.py`` hands both in. ``routing`` makes Pyramid's routes of them, ``tweens`` stands around
all of these, ``path_views`` judges a request, ``replies`` renders what a view answered.
"""
