"""The daemon as a process under every fault that can be ordered on one machine.

Servers are counters behind real HTTP (`counted.py`), so that what is stored can be compared with what they count
themselves. Daemons are forked from a process that has everything imported (`forked.py`): a start takes a fifth of a
second, so that one can be killed dozens of times in a test. What needs a program in front (a clock, a mount) is started
anew. The long part is `make soak`.
"""
