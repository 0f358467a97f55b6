"""Allocation candidates: which combinations of providers fit a request.

``requests`` says what is asked, ``filters`` which providers fit each part of
it, ``plans`` what the combination has to heed, ``combine`` finds the
combinations of one tree and ``search`` those of the snapshot; ``answers`` renders
them. ``providers`` filters single providers for GET /resource_providers.
Source: spec placement_api §4 and design §3.
"""
