"""Contract suites, fakes and factories for authors of drivers."""
