"""Asking servers: pages, health, one tiny generation. It owns HTTP, not what the answers mean."""
