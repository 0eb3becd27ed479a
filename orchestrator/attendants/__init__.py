"""The attendants there are: one clears caches before a case, one watches the platform during it."""

from orchestrator.attendants.cache import CacheAttendant, restore_run
from orchestrator.attendants.ground import Ground, Surveyor
from orchestrator.attendants.platform import PlatformAttendant

__all__ = ["CacheAttendant", "Ground", "PlatformAttendant", "Surveyor", "restore_run"]
