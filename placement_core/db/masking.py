"""URLs as people may see them."""

from __future__ import annotations

import re

#: What stands for a secret.
MASK = "***"
#: Who logs in where; a message bus has several of these.
_HOST = r"[^:@/,?#]*:[^:@/,?#]*@[^@/,?#]*"
_HOSTS = re.compile(rf"({_HOST}(?:,{_HOST})*)([^@]*)")
_PASSWORD = re.compile(r":[^:@/,?#]*@")
_SECRET_PARAMETER = re.compile(r"([^?&=]*(?:pass|pwd|secret|token|key)[^?&=]*=)[^&#]*", re.I)


#: The same in the midst of a text, whatever the password is made of.
_LOGIN_IN_TEXT = re.compile(r"""://[^\s'"]*@""")
_PARAMETER_IN_TEXT = re.compile(
    r"""([?&][^\s&='"]*(?:pass|pwd|secret|token|key)[^\s&='"]*=)[^\s&'"]*""", re.I)


def masked_in(text: str) -> str:
    """Return a text that may repeat URLs, without their secrets."""
    return _PARAMETER_IN_TEXT.sub(rf"\1{MASK}", _LOGIN_IN_TEXT.sub(f"://{MASK}@", text))


def masked(url: str) -> str:
    """Return a URL of a database or a message bus without its secrets.

    Where it is not certain what the secret is, more than that is left out.
    """
    scheme, separator, rest = url.partition("://")
    if not separator:
        return MASK if url else ""
    found = _HOSTS.fullmatch(rest)
    if found is not None:
        rest = _PASSWORD.sub(f":{MASK}@", found[1]) + found[2]
    elif "@" in rest:
        rest = f"{MASK}@" + rest.rpartition("@")[2]
    place, asked, parameters = rest.partition("?")
    return f"{scheme}://{place}{asked}" + _SECRET_PARAMETER.sub(rf"\1{MASK}", parameters)
