"""The library's error texts with the names of Python's arguments instead of the C interface's."""
from __future__ import annotations

import re
from typing import Dict

from . import _abi as abi

_CHOICES = {"gate_input": "GDN_G_", "beta_input": "GDN_BETA_", "qk_norm": "GDN_NORM_", "head_map": "GDN_HEADS_", "state_layout": "GDN_STATE_"}
_VALUES = {(name, value): known[len(prefix):].lower() for name, prefix in _CHOICES.items() for known, value in vars(abi).items()
           if known.startswith(prefix)}
_RULES = tuple((re.compile(pattern), replacement) for pattern, replacement in (
    (r"desc->|\binputs\.", ""),
    (r"\bcheckpoints\.interval\b", "checkpoint_interval"),
    (r"\bcheckpoints\.dst\b", "checkpoints"),
    (r"\bcheckpoints\.n\b", "the number of checkpoints"),
    (r"\blog\.row\b", "log_row"),
    (r"\blog\.(base_position|commit)\b", r"\1"),
    (r"\blog\.entries\b", "log"),
    (r"\btree\.parent\b|\btree(?= (is|are) given)", "parent"),
    (r"\brounding\.interval\b|\brounding(?= is given)", "rounding_interval"),
    (r"\bchunked\.digits\b|\bchunked(?= (is|are) given)", "digits"),
    (rf"\b({'|'.join(_CHOICES)}) is (\d+)", lambda found: f"{found[1]} is {_VALUES.get((found[1], int(found[2])), found[2])!r}"),
    (rf"\b({'|'.join(_CHOICES.values())})([A-Z_]+)( \(\d+\))?", lambda found: repr(found[2].lower())),
    (r"\bGDN_(NONE|SKIP)\b", r"gdn.\1"),
    (r"\bGDN_(EXACT_FTZ|EXACT)\b", lambda found: repr(found[1].lower())),
    (r" \([^()]*GDN_INIT[^()]*\)|,? 1 by GDN_INIT( \([^()]*\))?", ""),
    (r"\bNULL\b", "None"),
))


def in_python(said: str) -> str:
    """A text of the library in Python's words."""
    for pattern, replacement in _RULES:
        said = pattern.sub(replacement, said)
    return said


def renamed(said: str, labels: Dict[str, str]) -> str:
    """A text about operands that the caller knows by other names."""
    return re.sub(rf"\b({'|'.join(labels)})\b", lambda found: labels[found[1]], said) if labels else said
