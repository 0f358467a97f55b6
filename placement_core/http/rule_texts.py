"""What a policy rule takes, in words: for whoever was refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from oslo_policy import policy

#: What the checks of oslo.policy that are about the target or the token mean.
_PHRASES = {
    "project_id:%(project_id)s": "a token for the project",
    "user_id:%(user_id)s": "a token of the user",
    "domain_id:%(domain_id)s": "a token for the domain",
    "system_scope:all": "a token for the system",
}
_ANYBODY, _NOBODY = "@", "!"


def describe(rule: str, rules: Mapping[str, object]) -> str:
    """Return a sentence that says which roles, or what else, would do.

    :param rules: those in force, by name.
    :returns: such as "It takes the role admin or service."; empty where the rule lets
        everybody pass.
    """
    ways = list(dict.fromkeys(_list_ways(rules.get(rule), rules, (rule,))))
    if _ANYBODY in ways:
        return ""
    roles = [way.removeprefix("role ") for way in ways if _is_role(way)]
    others = [f"the {way}" if way.startswith("role ") else way
              for way in ways if not _is_role(way)]
    if roles:
        others.insert(0, f"the role {' or '.join(roles)}")
    return f"It takes {', or '.join(others)}." if others else "The policy lets nobody do it."


def _is_role(way: str) -> bool:
    return way.startswith("role ") and " and " not in way


def _list_ways(
    check: object, rules: Mapping[str, object], within: tuple[str, ...]
) -> Iterator[str]:
    """Return the ways to pass a check, each in words.

    :param within: the rules that the check is part of; one that refers to itself is skipped.
    """
    match check:
        case policy.RuleCheck(match=name):
            if name not in within:
                yield from _list_ways(rules.get(name), rules, (*within, name))
        case policy.OrCheck(rules=alternatives):
            for alternative in alternatives:
                yield from _list_ways(alternative, rules, within)
        case policy.AndCheck(rules=parts):
            yield " and ".join(_join(_list_ways(part, rules, within)) for part in parts)
        case policy.Check(kind="role", match=role):
            yield f"role {role}"
        case None:
            return
        case _ if str(check) != _NOBODY:
            yield _PHRASES.get(str(check), str(check))


def _join(ways: Iterator[str]) -> str:
    """Return the ways to pass one of several checks that must all be passed."""
    alternatives = list(dict.fromkeys(ways)) or ["what nobody has"]
    return alternatives[0] if len(alternatives) == 1 else f"({' or '.join(alternatives)})"
