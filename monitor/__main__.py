"""`python -m monitor`: the command `acceptd`."""

from monitor.cli.main import main

if __name__ == "__main__":
    main()
