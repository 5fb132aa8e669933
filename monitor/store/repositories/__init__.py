"""Repositories over SQL, one class for each protocol of `monitor/store/api.py`."""
