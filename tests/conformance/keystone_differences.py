"""Where our answers differ from a real Keystone's, and why: {story: {step: reason}}.

B1 to B19 are defects of Keystone. Everything else needs a reason that the author of a
client would accept. What is never compared: ids and addresses, the wording of a 400,
the order of lists, what our refusals say after Keystone's sentence, and headers that
Keystone has not (ETag, Cache-Control).
"""

OF: dict[str, dict[str, str]] = {}
