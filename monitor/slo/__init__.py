"""Service level objectives: good and valid events from intervals, error budgets, burn rates. No I/O, no clock."""
