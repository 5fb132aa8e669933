"""Configuration: one YAML file plus environment, checked whole, then frozen."""
