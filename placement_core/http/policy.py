"""Authorization: oslo.policy with the rules of the APIs.

Evaluating a rule costs more than most operations that it protects, and the result depends on
nothing but the rules, the caller and the target. So results are cached until the policy files
change, which are checked once a second.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections.abc import Hashable, Mapping, Sequence

from oslo_config import cfg
from oslo_policy import policy

from placement_core import errors
from placement_core.caches import BoundedCache
from placement_core.context import Identity
from placement_core.http import rule_texts
from placement_core.http.errors import NotAllowed

LOG = logging.getLogger(__name__)

_CHECK_EVERY_SECONDS = 1.0
#: Callers and targets are many in the long run.
_MOST_ANSWERS = 4096


def make_enforcer(
    conf: cfg.ConfigOpts, rules: Sequence[policy.RuleDefault]
) -> policy.Enforcer:
    """Return oslo.policy's enforcer of default rules, and of the files that override them."""
    enforcer = policy.Enforcer(conf)
    # An operator who has legacy defaults on knows it: the option says so.
    enforcer.suppress_default_change_warnings = True
    enforcer.register_defaults(rules)
    return enforcer


class Authorizer:
    """The policy in force: defaults, and the files that override them.

    :param rules: the defaults.
    :raises errors.ConfigurationError: a policy file cannot be understood.
    """

    def __init__(self, conf: cfg.ConfigOpts, rules: Sequence[policy.RuleDefault]) -> None:
        self._enforcer = make_enforcer(conf, rules)
        self._lock = threading.Lock()
        #: The kinds of tokens that a rule is for.
        self._scopes = {rule.name: frozenset(rule.scope_types or ()) for rule in rules}
        self._answers = BoundedCache[Hashable, bool](_MOST_ANSWERS)
        self._rules: object = None
        self._digest: str | None = None
        self._cacheable = True
        self._check_at = 0.0
        try:
            self._load()
        except Exception as error:
            raise errors.ConfigurationError(
                f"[oslo_policy] policy_file = {conf.oslo_policy.policy_file}: expected policy "
                f"rules in YAML: {' '.join(str(error).split())}"
            ) from error

    def knows(self, rule: str) -> bool:
        """Say whether ``rule`` has a default."""
        return rule in self._enforcer.registered_rules

    def rules(self) -> object | None:
        """Return the rules in force: another object once a policy file changed.

        None where their answers must not be cached.
        """
        if time.monotonic() >= self._check_at:
            self._reload()
        return self._rules if self._cacheable else None

    def digest(self) -> str | None:
        """Return a text that is the same for the same rules; None as ``rules``.

        What is asked afterwards is answered by these rules or by newer ones.
        """
        if time.monotonic() >= self._check_at:
            self._reload()
        return self._digest

    def check(
        self, rule: str, identity: Identity, target: Mapping[str, str | None] | None = None
    ) -> None:
        """Refuse a caller who does not pass a rule.

        :param target: the target of the action; the caller's own project and user
            when None.
        :raises errors.Forbidden: the caller may not.
        """
        if not self._is_in_scope(rule, identity):
            raise NotAllowed(rule, rule)
        if not self._passes(rule, identity, target):
            raise NotAllowed(rule)

    def allows(
        self, rule: str, identity: Identity, target: Mapping[str, str | None] | None = None
    ) -> bool:
        """Say whether the caller passes a rule; see ``check``."""
        return self._is_in_scope(rule, identity) and self._passes(rule, identity, target)

    def describe(self, rule: str, identity: Identity) -> str:
        """Return a sentence that says what the caller, who was refused, would need."""
        if not self._is_in_scope(rule, identity):
            scopes = " or ".join(f"a token for a {scope}" for scope in sorted(self._scopes[rule]))
            return f"It takes {scopes}."
        with self._lock:
            return rule_texts.describe(rule, self._enforcer.rules)

    def _is_in_scope(self, rule: str, identity: Identity) -> bool:
        if not identity.system_scope and not identity.domain_id:
            return True
        return ("system" if identity.system_scope else "domain") in self._scopes[rule]

    def _passes(
        self, rule: str, identity: Identity, target: Mapping[str, str | None] | None
    ) -> bool:
        if time.monotonic() >= self._check_at:
            self._reload()
        key = (rule, identity, tuple(target.items()) if target is not None else None)
        allowed = self._answers.get(key)
        return self._evaluate(key, rule, identity, target) if allowed is None else allowed

    def _reload(self) -> None:
        """Load policy files that changed; broken ones leave the rules as they are."""
        with self._lock:
            try:
                self._load()
            except Exception:
                LOG.exception("the policy files cannot be loaded; the old rules stay in force")
            rules = self._enforcer.rules
            if rules is not self._rules:
                self._rules = rules
                self._answers.clear()
                # The answer of a remote service (``http:``) may change at any time.
                self._cacheable = not any("http" in str(check) for check in rules.values())
                # Last: whoever reads it is answered by these rules.
                self._digest = _digest_rules(rules) if self._cacheable else None
            self._check_at = time.monotonic() + _CHECK_EVERY_SECONDS

    def _load(self) -> None:
        """Have oslo.policy load files that changed, which it does at no other time.

        :raises Exception: a file cannot be understood. The rules are what they were: oslo.policy
            has replaced them by those of the files that it read before.
        """
        enforcer = self._enforcer
        rules, file_rules = enforcer.rules, enforcer.file_rules
        enforcer.use_conf = True
        try:
            enforcer.load_rules()
        except Exception:
            enforcer.rules, enforcer.file_rules = rules, file_rules
            raise
        finally:
            # ``enforce`` would load them, too, and a broken one would fail the request.
            enforcer.use_conf = False

    def _evaluate(
        self,
        key: Hashable,
        rule: str,
        identity: Identity,
        target: Mapping[str, str | None] | None,
    ) -> bool:
        credentials = {
            "user_id": identity.user_id,
            "project_id": identity.project_id,
            "user_domain_id": identity.user_domain_id,
            "project_domain_id": identity.project_domain_id,
            "domain_id": identity.domain_id,
            "system_scope": identity.system_scope,
            "roles": list(identity.roles),
        }
        if target is None:
            target = {"project_id": identity.project_id, "user_id": identity.user_id}
        # An absent value must not look like a project of the name "None".
        target = {name: value for name, value in target.items() if value is not None}
        # The lock also keeps other threads from seeing rules that are half loaded.
        with self._lock:
            allowed = bool(self._enforcer.enforce(rule, target, credentials))
            if self._cacheable and self._enforcer.rules is self._rules:
                self._answers.put(key, allowed)
        return allowed


def _digest_rules(rules: Mapping[str, object]) -> str:
    text = "\0".join(f"{name}: {check}" for name, check in sorted(rules.items()))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
