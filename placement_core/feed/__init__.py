"""The change feed: what changed since a reader asked last, as objects in their present state.

``tokens`` are what readers keep; ``kinds`` says how the objects of each kind are found and listed;
``reading`` answers what changed behind a token, and pages of everything; ``waiting`` lets readers
wait for a commit. Source: issue 20, "The stream".

The feed tells states, not events: an object that changed ten times is in an answer once. So a
reader that applies each answer has what the database had at the answer's ``revision``, for the
objects that the token has passed, and loses nothing if it applies an answer twice.
"""
