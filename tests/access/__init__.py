"""Who may do what: every operation, asked by every kind of caller with a token of a Keystone."""
