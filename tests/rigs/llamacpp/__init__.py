"""The real llama-server b11434: how it is compiled, its models, and how a server of it is started and stopped."""
