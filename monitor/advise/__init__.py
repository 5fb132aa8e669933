"""Which method and draft suit a model on a GPU: before anything runs, so from published numbers alone. Pure."""
