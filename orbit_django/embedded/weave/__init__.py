"""A faithful server of the Weave remote worker protocol for one machine, for development and tests only.

In a test::

    from orbit_django.embedded.weave.faults import Faults
    from orbit_django.embedded.weave.platform import ENVIRONMENT, PROJECT, SECRET, TENANT
    from orbit_django.embedded.weave.server import FREQUENT, RARE, EmbeddedWeave

    faults = Faults()
    with EmbeddedWeave(faults=faults, limits=RARE) as weave:
        weave.url          # weave.base_url is with the scope, weave.token_url for client credentials
        weave.call("issue_token", name="worker", seconds=3600)    # a bearer token; also of `deployer`, `administrator`
        task_id = weave.call("create_task", capability="mail.send@1.0.0", input={"to": "x"}, side_effect="idempotent",
                             retry={"maxAttempts": 3}, timeout_seconds=60, output_schema={}, run_id=None)
        weave.call("task", task_id=task_id)   # status, incident, output, run, attempts, receipts
        weave.call("pause", run_id=…)      # resume suspend cancel fail_branch time_out block retry_safe accept_output
        weave.call("revoke_instance", worker_id=…)   # drain, set_principal, expire_tokens, add_connection, …
        weave.advance(16); weave.recover()    # the server's clock, and one step of recovery (else one each second)
        faults.add("lost", "complete")        # kinds: lost drop status capacity html hold delay advance stall lock …
        weave.recorder.of("complete")         # every request with its exact bytes, and what was answered
        weave.limits = FREQUENT               # refusals for capacity: RARE, ORDINARY, FREQUENT, or Limits(…)
        weave.restart()                       # with db_path=… from the file, as a new process would

Clients are ``worker``, ``deployer`` and ``administrator``, all with the secret SECRET. A release must have been
admitted before a task of its capabilities is created. As a process of its own (``python -m orbit_django.embedded.weave
--help``, or ``entry.serve``) the same controls are POSTs of a JSON object to ``/control/NAME`` from this machine,
answered by ``{"result": …}``.

Inside: ``platform`` joins the state machine (``releases``, ``leases``, ``settlement``, ``runs``, ``recovery``,
``connections``, ``access``, over ``state`` and ``records``), which has a given clock and neither threads nor sockets;
``server`` is HTTP over it, ``faults`` disturbs it, ``work``, ``incidents``, ``operators`` and
``views`` are for tests. State is kept
in memory or, with ``db_path``, in one SQLite file.

Left out: file transfer, lists of workers and releases, drain and resume over the wire, chunked request bodies. A run
blocked by policy answers WV-LEASE wherever no receipt is there to be replayed; WV-LEGACY-UNAVAILABLE and the other
codes without a cause here can be had with the fault ``status``.
"""
