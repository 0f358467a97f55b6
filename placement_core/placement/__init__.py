"""Resource providers, what they have, and who holds it; where a request would fit."""
