"""Views of the journal for people: tables and texts for a terminal, and a picture.

The recorder itself does not import the modules that they need.
"""

from kohort.recorder.views.member_labels import label_of, labels, seconds
from kohort.recorder.views.picture import draw
from kohort.recorder.views.printing import headline, partitions_table, rebalances_table, summary, weighed_table

__all__ = [
    "draw",
    "headline",
    "label_of",
    "labels",
    "partitions_table",
    "rebalances_table",
    "seconds",
    "summary",
    "weighed_table",
]
