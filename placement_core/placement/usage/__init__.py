"""What is used: by projects, users and providers, kept in memory, and audited."""
