"""Whether figures can be true: checks of a finished case against what is known around it."""

from orchestrator.plausibility.base import PlausibilityCheck, Plausible
from orchestrator.plausibility.table import PLAUSIBILITY_CHECKS, check_plausible, judged, noted

__all__ = [
    "PLAUSIBILITY_CHECKS",
    "PlausibilityCheck",
    "Plausible",
    "check_plausible",
    "judged",
    "noted",
]
