"""What Sphinx needs of ours: references made from the code's own tables, and links."""
