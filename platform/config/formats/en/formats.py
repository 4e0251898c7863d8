"""Times as the console has them: to the second, with their zone, and sorted as they read."""

DATE_FORMAT = "Y-m-d"
DATETIME_FORMAT = "Y-m-d H:i:s T"
