"""The weekly report: what to do, what was changed and what that did, and how every server fared."""
