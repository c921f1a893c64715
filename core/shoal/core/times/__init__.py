"""Times as people write them, in English and Chinese, as ranges in the caller's time zone.

calendar.py   the local calendar: days, weeks from Monday, months, seasons, to milliseconds of UTC
grammar.py    what a rule is
iso8601.py, english.py, chinese.py   the rules, as tables
reading.py    a whole expression (`parse`) or one inside of a query (`find`)
"""

from shoal.core.times.calendar import MS_PER_DAY, TimeRange, iso
from shoal.core.times.reading import TimeMention, find, parse, to_ms, zone_named

__all__ = ["MS_PER_DAY", "TimeMention", "TimeRange", "find", "iso", "parse", "to_ms", "zone_named"]
