from tests.integration.browser import browser

__all__ = ["browser"]
