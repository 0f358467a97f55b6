"""URLs as people may see them: whatever may be a secret is left out.

What is read here may be wrong, or a client's: a URL that is not of the expected form
shows less, and no text takes longer than its length.
"""

from __future__ import annotations

import re

#: What stands for a secret.
MASK = "***"
_SCHEME = re.compile(r"[A-Za-z0-9+.{}_-]*")
#: Who logs in where; a message bus has several of these.
_LOGIN = re.compile(r"([^:@/,?#]*):[^:@/,?#]*(@[^:@/,?#]*(?::[0-9]+)?)")
_PLACE = re.compile(r"(?:[^:@/,?#\[\]]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]*)?")
_SECRET_NAME = re.compile(r"pass|pwd|secret|token|key|cred|auth", re.IGNORECASE)
#: A URL in the midst of a text ends there.
_END = re.compile(r"""([\s'"]+)""")
_PARAMETER = re.compile(r"([?&#])")


def mask_text(text: str) -> str:
    """Return a text that may repeat URLs, without their secrets."""
    words = _END.split(text)
    words[::2] = [_masked_word(word) for word in words[::2]]
    return "".join(words)


def mask_query(query: str) -> str:
    """Return the query string of a URL without secrets."""
    # A question mark is what tells parameters from other text.
    return _masked_word(f"?{query}")[1:]


def _masked_word(word: str) -> str:
    begin, end = word.find("://"), word.rfind("@")
    # What is masked already shows who logs in.
    if 0 <= begin < end and word.count("@") > word.count(f":{MASK}@"):
        word = f"{word[:begin]}://{MASK}{word[end:]}"
    return _without_parameters(word)


def _without_parameters(url: str) -> str:
    """Return a URL in which parameters with the name of a secret have no value."""
    if "=" not in url:
        return url
    parts = _PARAMETER.split(url)
    for index in range(2, len(parts), 2):
        name, equals, _ = parts[index].partition("=")
        if equals and _SECRET_NAME.search(name):
            parts[index] = f"{name}={MASK}"
    return "".join(parts)


def mask_url(url: str) -> str:
    """Return a URL of a database or a message bus without its secrets.

    Where it is not certain what the secret is, more than that is left out.
    """
    scheme, separator, rest = url.partition("://")
    if not separator or not _SCHEME.fullmatch(scheme):
        return MASK if url else ""
    if "@" in rest:
        before, _, after = rest.rpartition("@")
        return f"{scheme}://{_masked_logins(before, after)}"
    place, slash, path = rest.partition("/")
    place, mark, parameters = place.partition("?")
    if not all(_PLACE.fullmatch(part) for part in place.split(",")):
        return f"{scheme}://{MASK}"
    return f"{scheme}://{place}{_without_parameters(f'{mark}{parameters}{slash}{path}')}"


def _masked_logins(before: str, after: str) -> str:
    """Return what follows the scheme, if somebody logs in there."""
    place = re.match(r"[^/?#]*", after)[0]  # type: ignore[index]  # (it always matches)
    logins = f"{before}@{place}".split(",")
    matches = [_LOGIN.fullmatch(login) for login in logins]
    if all(matches):
        before = ",".join(f"{login[1]}:{MASK}{login[2]}" for login in matches if login)
    else:
        before = f"{MASK}@{place}"
    return f"{before}{_without_parameters(after[len(place):])}"
