"""What acceptd costs: `python -m tests.bench` runs every benchmark, each also runs by itself. They assert nothing."""
