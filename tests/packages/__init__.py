"""What pip makes of the distribution: a wheel, in environments that have nothing else."""
