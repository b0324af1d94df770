"""Plans of what happens in a world: drawn from a seed, changed, stored in files.

`draw` makes a plan, `dump` and `load` store it. Its steps are in `kohort.sim.steps`, which the room
that executes them shares with this one.
"""

from kohort.sim.plans.application_settings import ApplicationSettings
from kohort.sim.plans.copying import COPIER_MAX_POLL_MS, COPIES, SOURCE, Copying, copying_of
from kohort.sim.plans.drawing import TOPICS, draw
from kohort.sim.plans.faultless import is_faultless
from kohort.sim.plans.message_fault_drawing import message_fault
from kohort.sim.plans.plan import Plan, dump, load
from kohort.sim.plans.record_drawing import VAULT
from kohort.sim.plans.small_transactions import draw_small_transactions
from kohort.sim.plans.transaction_drawing import make_transactional

__all__ = [
    "COPIER_MAX_POLL_MS",
    "COPIES",
    "SOURCE",
    "TOPICS",
    "VAULT",
    "ApplicationSettings",
    "Copying",
    "Plan",
    "copying_of",
    "draw",
    "draw_small_transactions",
    "dump",
    "is_faultless",
    "load",
    "make_transactional",
    "message_fault",
]
