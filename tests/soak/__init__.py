"""Long runs: a real daemon in simulated time, with memory and lag drawn over it. Run by `make soak`."""
