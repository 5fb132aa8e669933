"""The real vLLM 0.32.0 on CPU: how it is built, its models, and how a server of it is started and stopped."""
