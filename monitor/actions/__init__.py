"""Acting: rollouts, changes and leases, carried out so that no server is left down and no request is cut.

`executor.Actions` is the way in. The machine itself (`machine`, `bringup`, `undo`, `course`) is pure: it takes what was
seen and returns the next step. What it may never do is written down in docs/adr/0003-action-machine.md.
"""
