"""The shadow: a proxy before the old Placement, which brings ours to the same state and compares.

``proxy`` is what clients reach. One side answers, always; what it acknowledged is applied to the
other afterwards, in order (``ordering``: by the objects that requests touch, ``touched``). Reads
are asked of both and compared by rules that are data (``rules``); where a limit chose among
candidates, by what it may choose (``candidates``). What differs is read from the side that
answers again (``rereading``). ``switching`` changes which side answers; ``state`` keeps
what survives a restart, and ``reports`` says how it went.
"""
