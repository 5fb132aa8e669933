"""Who to watch: servers found on this host, and what their processes say of their setting."""
