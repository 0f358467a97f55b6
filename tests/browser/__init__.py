"""The dashboard in a real Chromium, as its users meet it: seen, heard and typed at."""
