"""Views of the journal for people: tables and texts for a terminal, and a picture.

The recorder itself does not import the modules that they need.
"""

from kohort.recorder.views.member_labels import labels
from kohort.recorder.views.picture import draw
from kohort.recorder.views.printing import headline, partitions_table, rebalances_table, summary, weighed_table

__all__ = ["draw", "headline", "labels", "partitions_table", "rebalances_table", "summary", "weighed_table"]
