"""CEL, the language of conditions, without the command line that its package loads first. It owns nothing of CEL.

That command line is a terminal with lexers (prompt_toolkit, Pygments): 6 MB and 160 modules that no daemon needs.
"""

from __future__ import annotations

import sys
from types import ModuleType

# Python takes a module that is known by its name already; `python -m cel` and its console script are not concerned.
sys.modules.setdefault("cel.cli", ModuleType("cel.cli"))

from cel import Program, compile  # noqa: E402

__all__ = ["Program", "compile"]
