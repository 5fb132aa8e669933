"""Metrics text to series and values: classic Prometheus text and OpenMetrics. It knows no engine's names."""

from monitor.exposition.page import Layout, Page, Series
from monitor.exposition.reader import PageReader, parse
from monitor.exposition.vocabulary import Vocabulary

__all__ = ["Layout", "Page", "PageReader", "Series", "Vocabulary", "parse"]
