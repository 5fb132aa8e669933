"""What the repositories of a store promise: one protocol each, by what they are about."""
