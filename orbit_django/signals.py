"""Django signals of a worker: a task was received or has finished, a result was delivered or refused.

They are told, never asked: a receiver that raises is logged and changes nothing, nor does one that is slow, which only
holds up the thread that it runs in. They are sent in the process that did the work, outside of any transaction, and not
at all when the process dies in between: whatever must happen exactly once belongs into a handler.

``task_received`` (sender: the handler, a function; None for a task that is not served here)
    A delivery has arrived and is going to be looked at. ``context``: its TaskContext.
``task_finished`` (sender: as above)
    An outcome is committed, and not yet reported. ``context``; ``outcome``: complete, fail, replay (an earlier outcome
    was found, the handler did not run) or conflict (the key belongs to another input); ``code``: of a failure, else "".
``result_delivered`` (sender: the model OutboxMessage)
    The runtime has accepted a report, which is on record. ``message``: the row, with the token of the delivery.
``result_refused`` (sender: as above)
    The runtime has given a final answer that is no acceptance, which is on record. ``message``; ``reason``: its words;
    ``is_superseded``: whether that is no trouble: a duplicate, an attempt that is over.
"""

from __future__ import annotations

from django.dispatch import Signal

task_received = Signal()
task_finished = Signal()
result_delivered = Signal()
result_refused = Signal()
