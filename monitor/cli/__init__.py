"""The command line. Exit codes: 0 done, 1 the answer is no, 2 wrong input, 3 what it needs is not there."""
