"""Seeded bugs: what is wrong, which drill or simulation tells it, and within what; see docs/drills.md."""

from __future__ import annotations

from dataclasses import dataclass

AREAS = (
    "durability",
    "quorums",
    "fencing",
    "leases",
    "read levels",
    "ledger list",
    "apply order",
    "trimming",
    "sequences",
    "indexes",
    "lock release",
    "isolation",
    "outcome resolution",
    "forwarding",
    "ZooKeeper away",
    "snapshot transfer",
    "cached plans",
    "LAC",
)
RUN_S = 4.0
LOG = "tests/log_bookkeeper/simulation"
REPLICAS = "tests/replica/simulation"
STORE = "tests/simulation"


@dataclass(frozen=True)
class InDrill:
    """Caught by a drill on real servers.

    drill: its name in herdpy.drill.DRILLS. workloads: those that run in it here.
    reported: kinds of anomalies, of which at least one is reported.
    runs: at most so many, with the seeds from 1 on, each with `--seconds` `seconds`.
    rounds: so many faults in each run, however long they take. clients: of each workload.
    """

    bug: str
    area: str
    drill: str
    workloads: tuple[str, ...]
    reported: tuple[str, ...]
    runs: int
    about: str
    seconds: float = RUN_S
    rounds: int = 1
    clients: int = 4


@dataclass(frozen=True)
class InSimulation:
    """Caught by a simulation. script: one of its scenarios; None: its random runs. seeds: at most so many."""

    bug: str
    area: str
    simulation: str
    script: str | None
    reported: str
    seeds: int
    about: str


IN_DRILLS = (
    InDrill(
        "stops_leading_without_zookeeper",
        "ZooKeeper away",
        "zookeeper-away",
        ("registers", "inserts"),
        ("writes stopped",),
        1,
        "a leader gives up as soon as its connection to ZooKeeper is broken",
        seconds=12.0,
    ),
    InDrill(
        "sends_a_forwarded_commit_again_unasked",
        "forwarding",
        "one-address",
        ("inserts",),
        ("doubled insert",),
        4,
        "a follower takes for not done what its leader has not answered, and sends it to the next one",
        rounds=5,
    ),
    InDrill(
        "names_forwarded_commits_itself",
        "forwarding",
        "kill-forwarder",
        ("inserts",),
        ("undone insert",),
        3,
        "a follower does not pass on the name that a client gives to its commit",
        rounds=5,
        clients=16,
    ),
    InDrill(
        "knows_no_outcomes_but_its_own",
        "outcome resolution",
        "kill-leader",
        ("inserts", "bank"),
        ("undone insert", "doubled insert", "unexplained balance"),
        6,
        "a new leader takes for not done what the one before it did",
    ),
    InDrill(
        "gives_row_locks_back_at_once",
        "lock release",
        "pause-bookie",
        ("bank",),
        ("wrong total",),
        1,
        "a row's lock is given back before its transaction has ended",
    ),
    InDrill(
        "applies_an_entry_late",
        "apply order",
        "roll-ledgers",
        ("list-append",),
        ("own write missing", "replicas differ"),
        3,
        "followers say that they have an entry when they have applied the one before",
    ),
    InDrill(
        "misses_an_entry_of_each_ledger",
        "apply order",
        "roll-ledgers",
        ("list-append", "sets"),
        ("replicas differ", "fractured read"),
        1,
        "followers do not check the chain, and leave an entry of each ledger out",
    ),
    InDrill(
        "sends_a_snapshot_of_the_past",
        "snapshot transfer",
        "trim-and-seed",
        ("sets",),
        ("replicas differ",),
        3,
        "a snapshot claims to have one more entry than it has",
    ),
    InDrill(
        "keeps_the_plan_of_an_old_catalog",
        "cached plans",
        "pause-bookie",
        ("redefined",),
        ("wrong rows", "unexpected error"),
        1,
        "a statement's plan outlives the tables that it was made for",
    ),
    InDrill(
        "answers_before_it_is_durable",
        "durability",
        "lose-in-flight",
        ("inserts", "sequences"),
        ("lost insert", "lost row"),
        2,
        "a commit is acknowledged before any bookie has it",
    ),
    InDrill(
        "answers_who_reads_what_is_not_durable",
        "durability",
        "lose-in-flight",
        ("registers",),
        ("not linearizable",),
        6,
        "a client that has read a change which waits for the log gets its answer at once",
    ),
    InDrill(
        "takes_one_bookie_for_a_quorum",
        "quorums",
        "lose-only-witness",
        ("inserts", "sequences"),
        ("lost insert", "lost row"),
        4,
        "an entry is acknowledged when one bookie has it",
    ),
    InDrill(
        "recovers_to_the_last_add_confirmed",
        "LAC",
        "kill-leader",
        ("inserts", "sequences"),
        ("lost insert", "lost row"),
        8,
        "a new leader looks for nothing behind what its predecessor's entries tell",
    ),
    InDrill(
        "acknowledges_and_forgets",
        "durability",
        "kill-bookie",
        ("inserts", "queue"),
        ("lost insert", "lost job"),
        1,
        "every fiftieth commit is answered, and is nowhere",
    ),
    InDrill(
        "believes_in_its_lease_for_ever",
        "leases",
        "pause-leader",
        ("registers", "list-append"),
        ("not linearizable", "stale read"),
        3,
        "a server that leads, as far as it knows, answers",
    ),
    InDrill(
        "does_not_wait_for_a_position",
        "read levels",
        "roll-ledgers",
        ("list-append", "sets"),
        ("own write missing", "stale read"),
        3,
        "a follower answers at level at_lsn whatever it has applied",
    ),
    InDrill(
        "believes_to_be_fresh_for_ever",
        "read levels",
        "roll-ledgers",
        ("list-append", "sets"),
        ("stale read", "G-single-realtime", "lost element"),
        6,
        "a follower answers at level bounded however old it is",
    ),
    InDrill(
        "leaves_sequences_out",
        "sequences",
        "kill-leader",
        ("sequences",),
        ("number given twice", "number went back", "unexpected error"),
        1,
        "what a sequence has given is not applied",
    ),
    InDrill(
        "leaves_old_index_entries",
        "indexes",
        "roll-ledgers",
        ("indexed",),
        ("row twice in the index", "unexpected error"),
        1,
        "a row that changes keeps its old entries in secondary indexes",
    ),
    InDrill(
        "checks_no_unique_index",
        "indexes",
        "pause-bookie",
        ("unique-keys",),
        ("two winners",),
        1,
        "a row is inserted even if another has its unique value",
    ),
    InDrill(
        "locks_nothing_for_update",
        "isolation",
        "pause-bookie",
        ("bank",),
        ("wrong total",),
        2,
        "SELECT ... FOR UPDATE keeps no other transaction from the rows",
    ),
    InDrill(
        "judges_no_reads",
        "isolation",
        "kill-bookie",
        ("list-append",),
        ("G2", "G-single"),
        2,
        "a serializable transaction commits whatever became of what it has read",
    ),
    InDrill(
        "overwrites_what_it_has_not_seen",
        "isolation",
        "kill-bookie",
        ("list-append",),
        ("lost update", "lost append", "G-single"),
        2,
        "a repeatable read changes rows that others have changed since its snapshot",
    ),
)

IN_SIMULATIONS = (
    InSimulation(
        "drops_the_fence",
        "fencing",
        REPLICAS,
        "the_old_leader_writes_on",
        "what was acknowledged is not in the log",
        3,
        "a new leader reads the open ledger without fencing it",
    ),
    InSimulation(
        "recovers_only_the_first_open_ledger",
        "fencing",
        LOG,
        None,
        "an acknowledged append is lost",
        400,
        "a new leader drops the ledger that was made ahead, and does not recover it",
    ),
    InSimulation(
        "closes_only_what_it_knew_before_the_claim",
        "fencing",
        LOG,
        None,
        "an acknowledged append is lost",
        400,
        "a new leader takes ledgers that were listed after it had read the list for empty ones",
    ),
    InSimulation(
        "does_not_check_the_lease_after_the_read",
        "leases",
        REPLICAS,
        "the_leader_sleeps",
        "a linearizable read shows the past",
        3,
        "a server that leads, as far as it knows, answers",
    ),
    InSimulation(
        "answers_a_follower_without_its_lease",
        "leases",
        REPLICAS,
        "a_sleeping_leader_has_a_followers_question",
        "a linearizable read shows the past",
        3,
        "a leader answers a follower's question as soon as it comes",
    ),
    InSimulation(
        "does_not_wait_out_the_predecessors_lease",
        "leases",
        REPLICAS,
        "the_session_ends_within_the_lease",
        "a linearizable read shows the past",
        3,
        "a new leader answers as soon as it has the log",
    ),
    InSimulation(
        "ignores_the_version_of_the_list",
        "ledger list",
        LOG,
        None,
        "a ledger that was read is not in the list any more",
        400,
        "the list is overwritten, whatever version it has",
    ),
    InSimulation(
        "lists_a_ledger_after_its_first_entries",
        "ledger list",
        LOG,
        None,
        "the list is damaged, entries are lost",
        400,
        "a ledger is written to first, and listed then",
    ),
    InSimulation(
        "skips_an_entry_of_each_ledger",
        "apply order",
        REPLICAS,
        "ledgers_roll",
        "a replica does not come to the log's end",
        3,
        "followers do not check the chain, and leave an entry of each ledger out",
    ),
    InSimulation(
        "trims_past_a_follower",
        "trimming",
        REPLICAS,
        "the_log_is_trimmed_while_a_follower_sleeps",
        "a follower that was there needs what is trimmed",
        3,
        "what is in the leader's checkpoint is deleted, even if a follower has still to read it",
    ),
    InSimulation(
        "trims_what_is_not_in_the_store",
        "trimming",
        STORE,
        None,
        "after a crash the store needs what is trimmed",
        150,
        "the log is trimmed to its end, whatever the store has of it",
    ),
    InSimulation(
        "releases_locks_at_the_end_of_a_statement",
        "lock release",
        STORE,
        None,
        "counters and accounts do not add up",
        150,
        "locks end with the statement, not with the transaction",
    ),
    InSimulation(
        "never_gives_locks_back_after_a_rollback",
        "lock release",
        STORE,
        None,
        "locks without a holder are not free",
        150,
        "the locks of a transaction that was rolled back stay",
    ),
    InSimulation(
        "guesses_what_the_next_leader_knows",
        "outcome resolution",
        REPLICAS,
        "a_sleeping_leader_is_asked_for_an_outcome",
        "a commit is there that was said not to be",
        3,
        'a server that led a moment ago reports "not done" without making sure that it still leads',
    ),
    InSimulation(
        "says_not_done_of_what_is_unknown",
        "outcome resolution",
        REPLICAS,
        "the_answer_of_the_bookies_is_lost",
        "a commit is there that was reported as not done",
        3,
        "what was in flight when the log was lost is reported as not done",
    ),
    InSimulation(
        "takes_the_last_add_confirmed_for_the_end",
        "LAC",
        REPLICAS,
        "the_leader_dies_before_it_tells_what_is_confirmed",
        "a bounded read is older than it may be",
        3,
        "a bounded read takes what is known to be confirmed for the log's end",
    ),
    InSimulation(
        "applies_what_is_not_confirmed",
        "LAC",
        REPLICAS,
        "one_bookie_alone_has_the_last_entry",
        "a replica has what the log has not",
        3,
        "a follower applies entries as soon as one bookie has them",
    ),
    InSimulation(
        "reports_what_is_not_confirmed",
        "LAC",
        REPLICAS,
        "one_bookie_alone_has_the_last_entry",
        "a replica has what the log has not",
        3,
        "a leader reports to followers what it has sent",
    ),
    InSimulation(
        "takes_a_report_for_the_ledger_at_hand",
        "LAC",
        LOG,
        None,
        "a reader does not come to the log's end",
        400,
        "a follower does not look at which ledger a report is about",
    ),
    InSimulation(
        "believes_a_silent_leader",
        "LAC",
        REPLICAS,
        "a_follower_hears_nothing_of_its_leader",
        "the follower does not come along",
        3,
        "a follower that has heard a report waits for the next one for ever",
    ),
    InSimulation(
        "follows_to_the_next_ledger_at_the_last_add_confirmed",
        "LAC",
        LOG,
        None,
        "a reader does not come to the log's end",
        400,
        "a follower leaves a ledger where it is known to be confirmed, not where it ends",
    ),
)


def _each(one: InDrill) -> str:
    """How long a run is."""
    return f"{one.rounds} faults" if one.rounds > 1 else f"{one.seconds:g} s"


def rows() -> list[str]:
    """The table of docs/drills.md, row by row."""
    found = [
        (
            AREAS.index(one.area),
            f"| {one.area} | `{one.bug}`: {one.about} | drill `{one.drill}`"
            f" ({', '.join(f'`{each}`' for each in one.workloads)})"
            f" | {' or '.join(one.reported)} | {one.runs} run{'s' if one.runs > 1 else ''} of {_each(one)} |",
        )
        for one in IN_DRILLS
    ]
    for sim in IN_SIMULATIONS:
        script = f", scenario `{sim.script}`" if sim.script is not None else ""
        row = f"| {sim.area} | `{sim.bug}`: {sim.about} | `{sim.simulation}`{script} | {sim.reported}"
        found.append((AREAS.index(sim.area), f"{row} | {sim.seeds} seeds |"))
    return [row for _place, row in sorted(found, key=lambda one: one[0])]
