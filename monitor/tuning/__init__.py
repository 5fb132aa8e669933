"""Tuning: which setting serves most, how sure that is, and whether a change that was made paid. Pure."""

from monitor.tuning.advice import TuneAdvice
from monitor.tuning.decision import tune
from monitor.tuning.document import serve, tune_json
from monitor.tuning.observed import CostRow, Fact, Limits, Row, TuneInput

__all__ = ["CostRow", "Fact", "Limits", "Row", "TuneAdvice", "TuneInput", "serve", "tune", "tune_json"]
