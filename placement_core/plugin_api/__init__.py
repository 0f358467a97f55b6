"""What drivers implement, kind by kind, and the loader that finds them."""
