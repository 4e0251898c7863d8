"""Records and what they come to in the admin: to read, not to change, and as fast with millions of them as with ten."""

from records.admin.records import RequestRecordAdmin
from records.admin.triggers import SafetyTriggerAdmin
from records.admin.usage import DailyUsageAdmin

__all__ = ["DailyUsageAdmin", "RequestRecordAdmin", "SafetyTriggerAdmin"]
