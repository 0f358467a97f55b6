"""What an API is: a tree of routes, with the habits that all of them share."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from oslo_policy import policy

from placement_core.http import errors as http_errors, identity, media, validation
from placement_core.http.operations import ONLY, Operation, Version
from placement_core.http.versions import Versions


@dataclasses.dataclass(frozen=True)
class Api:
    """One tree of routes, with the habits that all of them share.

    :ivar name: what metrics call it.
    :ivar prefix: what the paths of its operations begin with, such as
        ``/capacity/v1``; empty for the API that has every path no other one has.
    :ivar versions: None for an API without microversions.
    :ivar refuse: makes the error document.
    :ivar cache_headers_since: the first microversion whose replies may carry
        ``Cache-Control`` and ``Last-Modified``.
    :ivar headers: what every reply of an API without microversions carries.
    :ivar check_media: refuses what is sent, or may be answered, in no JSON.
    :ivar wording: says what is wrong with a body or a query string.
    :ivar every_method: HEAD is answered wherever GET is, OPTIONS everywhere, and
        a path may end with a slash; only for an API without microversions.
    :ivar json_suffix: a path may end with ``.json``, which asks for JSON.
    :ivar absolute_links: links are URLs, not paths.
    :ivar public_paths: below ``prefix``; they need no token.
    :ivar unauthorized: makes the answer to who has no token.
    :ivar rules: the policy rules that its operations name, with their defaults.
    """

    name: str
    prefix: str
    operations: Sequence[Operation]
    versions: Versions | None
    refuse: http_errors.Refuse
    cache_headers_since: Version = ONLY
    headers: tuple[tuple[str, str], ...] = ()
    check_media: media.Check = media.json_or_415
    wording: validation.Wording = str
    every_method: bool = False
    json_suffix: bool = False
    absolute_links: bool = False
    public_paths: tuple[str, ...] = ()
    unauthorized: identity.Unauthorized = identity.message_401
    rules: Sequence[policy.RuleDefault] = ()

    def owns(self, path: str) -> bool:
        """Say whether a path is in this tree, whether or not it leads anywhere."""
        return f"{path}/".startswith(f"{self.prefix}/")
