-- Version 1. Bytes, microseconds and seconds as the names say; times are both wall (since 1970, UTC)
-- and boottime (since boot), because the wall clock may be set.

CREATE TABLE host (
    id         INTEGER PRIMARY KEY,
    boot_id    TEXT NOT NULL UNIQUE,
    facts_json TEXT NOT NULL
) STRICT;

CREATE TABLE trial (
    id              INTEGER PRIMARY KEY,
    name            TEXT    NOT NULL,
    kind            TEXT    NOT NULL,           -- lab_command, lab_tor
    host_id         INTEGER NOT NULL REFERENCES host (id),
    metric          TEXT    NOT NULL,
    seed            INTEGER NOT NULL,
    repeats         INTEGER NOT NULL,
    planned_us      INTEGER NOT NULL,           -- planned length of one life
    plan_json       TEXT    NOT NULL,           -- arms and treatments
    parameters_json TEXT    NOT NULL,           -- of the workload
    command         TEXT    NOT NULL,           -- repeats the run
    tool_version    TEXT    NOT NULL,
    started_wall_us INTEGER NOT NULL,
    ended_wall_us   INTEGER,
    outcome         TEXT                        -- completed, interrupted, failed; NULL while it runs
) STRICT;

CREATE TABLE arm (
    id             INTEGER PRIMARY KEY,
    trial_id       INTEGER NOT NULL REFERENCES trial (id),
    position       INTEGER NOT NULL,
    name           TEXT    NOT NULL,
    control        INTEGER NOT NULL,
    treatment_json TEXT    NOT NULL,
    obtained_json  TEXT,                        -- the build that was prepared for the arm
    UNIQUE (trial_id, name)
) STRICT;

CREATE TABLE service (
    id       INTEGER PRIMARY KEY,
    trial_id INTEGER NOT NULL REFERENCES trial (id),
    arm_id   INTEGER NOT NULL REFERENCES arm (id),
    name     TEXT    NOT NULL,
    block    INTEGER NOT NULL,                  -- repeat of a lab run, counted from 0
    position INTEGER NOT NULL,                  -- order of starting within the run
    UNIQUE (trial_id, name)
) STRICT;

-- The ledger: a life, and beside the treatment of its arm the identity that was proved.
CREATE TABLE life (
    id                  INTEGER PRIMARY KEY,
    service_id          INTEGER NOT NULL REFERENCES service (id),
    boot_id             TEXT    NOT NULL,
    pid                 INTEGER NOT NULL,
    start_ticks         INTEGER NOT NULL,
    started_wall_us     INTEGER NOT NULL,
    started_boottime_us INTEGER NOT NULL,
    identity_json       TEXT,
    contamination       TEXT,                   -- why the identity is not the treatment; NULL where it is
    ended_wall_us       INTEGER,
    ended_boottime_us   INTEGER,
    ending_json         TEXT,
    UNIQUE (boot_id, pid, start_ticks)
) STRICT;

CREATE TABLE tick (
    id           INTEGER PRIMARY KEY,
    trial_id     INTEGER NOT NULL REFERENCES trial (id),
    sequence     INTEGER NOT NULL,
    wall_us      INTEGER NOT NULL,
    boottime_us  INTEGER NOT NULL,
    cost_wall_us INTEGER NOT NULL,              -- what sampling cost the sampler
    cost_cpu_us  INTEGER NOT NULL,
    UNIQUE (trial_id, sequence)
) STRICT;

CREATE TABLE sample (
    life_id              INTEGER NOT NULL REFERENCES life (id),
    tick_id              INTEGER NOT NULL REFERENCES tick (id),
    rss_bytes            INTEGER NOT NULL,
    anon_bytes           INTEGER NOT NULL,
    file_bytes           INTEGER NOT NULL,
    shmem_bytes          INTEGER NOT NULL,
    swap_bytes           INTEGER NOT NULL,
    vsize_bytes          INTEGER NOT NULL,
    hwm_bytes            INTEGER NOT NULL,
    minor_faults         INTEGER NOT NULL,
    major_faults         INTEGER NOT NULL,
    cpu_us               INTEGER NOT NULL,
    threads              INTEGER NOT NULL,
    processes            INTEGER NOT NULL,
    cgroup_current_bytes INTEGER,
    cgroup_peak_bytes    INTEGER,
    PRIMARY KEY (life_id, tick_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE slow_sample (
    life_id             INTEGER NOT NULL REFERENCES life (id),
    tick_id             INTEGER NOT NULL REFERENCES tick (id),
    pss_bytes           INTEGER NOT NULL,
    private_dirty_bytes INTEGER NOT NULL,
    lazyfree_bytes      INTEGER NOT NULL,
    anon_huge_bytes     INTEGER NOT NULL,
    cost_us             INTEGER NOT NULL,
    PRIMARY KEY (life_id, tick_id)
) STRICT, WITHOUT ROWID;

-- What the workload itself tells beside memory, such as consensus_age_seconds.
CREATE TABLE observation (
    life_id INTEGER NOT NULL REFERENCES life (id),
    tick_id INTEGER NOT NULL REFERENCES tick (id),
    name    TEXT    NOT NULL,
    value   REAL    NOT NULL,
    PRIMARY KEY (life_id, name, tick_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE event (
    id         INTEGER PRIMARY KEY,
    trial_id   INTEGER NOT NULL REFERENCES trial (id),
    service_id INTEGER REFERENCES service (id),
    wall_us    INTEGER NOT NULL,
    kind       TEXT    NOT NULL,                -- arm_failed, forked_away, lag, gap, note, ...
    text       TEXT    NOT NULL
) STRICT;
