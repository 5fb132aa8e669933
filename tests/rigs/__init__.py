"""Real engines, built into a cache outside the checkout, for the tests that need more than a simulator."""
