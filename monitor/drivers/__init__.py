"""Drivers: how a managed server is started, stopped and looked at. They own no decision and no waiting."""
