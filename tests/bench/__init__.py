"""The benchmarks, at a size where nothing is measured but that they run."""
