"""Where the ranks meet: scrape, evaluate, decide, act, tell. Each part does one thing with what it is given."""
