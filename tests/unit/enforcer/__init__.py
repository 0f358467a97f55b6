"""The enforcer library, against a small cloud in this process."""
