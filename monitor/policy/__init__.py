"""Rules: files of conditions over signals, their evaluation, the life of the alerts they raise. No I/O, no clock."""
