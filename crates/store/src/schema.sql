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
    kind            TEXT    NOT NULL,           -- a TrialKind; a further one needs a new schema version
    host_id         INTEGER NOT NULL REFERENCES host (id),
    metric          TEXT    NOT NULL,
    seed            INTEGER NOT NULL,
    repeats         INTEGER NOT NULL,
    planned_us      INTEGER NOT NULL,           -- planned length of one life; of a field trial, of the trial
    parameters_json TEXT    NOT NULL,           -- of the workload; of a field trial, the plan as drawn
    command         TEXT    NOT NULL,           -- repeats the run
    tool_version    TEXT    NOT NULL,
    started_wall_us INTEGER NOT NULL,
    ended_wall_us   INTEGER,
    outcome         TEXT,                       -- completed, interrupted, failed; NULL while it runs
    rolled_up_tick_id INTEGER                   -- samples up to this tick are medians of 15 minutes
) STRICT;

CREATE UNIQUE INDEX running_field_trial ON trial (name) WHERE kind = 'field' AND ended_wall_us IS NULL;

CREATE TABLE arm (
    id             INTEGER PRIMARY KEY,
    trial_id       INTEGER NOT NULL REFERENCES trial (id),
    position       INTEGER NOT NULL,
    name           TEXT    NOT NULL,
    control        INTEGER NOT NULL,
    treatment_json TEXT    NOT NULL,
    obtained_json  TEXT,                        -- the build that was prepared for the arm; of a field trial, what its services must run
    source         TEXT,                        -- the list that an imported arm was read from
    UNIQUE (trial_id, name)
) STRICT;

CREATE TABLE service (
    id       INTEGER PRIMARY KEY,
    trial_id INTEGER NOT NULL REFERENCES trial (id),
    arm_id   INTEGER NOT NULL REFERENCES arm (id),
    name     TEXT    NOT NULL,
    block    INTEGER NOT NULL,                  -- repeat of a lab run, counted from 0
    position INTEGER NOT NULL,                  -- order of starting within the run
    attributes_json TEXT,                       -- what else is known of it
    UNIQUE (trial_id, name)
) STRICT;

-- Services that an imported list puts into an arm beside service.arm_id: operators' lists may name a service twice.
CREATE TABLE membership (
    arm_id     INTEGER NOT NULL REFERENCES arm (id),
    service_id INTEGER NOT NULL REFERENCES service (id),
    PRIMARY KEY (arm_id, service_id)
) STRICT, WITHOUT ROWID;

-- The ledger: a life, and beside the treatment of its arm the identity that was proved.
CREATE TABLE life (
    id                  INTEGER PRIMARY KEY,
    service_id          INTEGER NOT NULL REFERENCES service (id),
    boot_id             TEXT,                   -- with pid and start_ticks the key; NULL in imported data
    pid                 INTEGER,
    start_ticks         INTEGER,
    start_json          TEXT    NOT NULL,       -- observed, inferred with its uncertainty, or unknown
    started_wall_us     INTEGER NOT NULL,
    started_boottime_us INTEGER NOT NULL,       -- of an import the same as started_wall_us, as is tick's
    identity_json       TEXT,
    contamination       TEXT,                   -- why it does not count for its arm; NULL where it does
    failed              INTEGER NOT NULL DEFAULT 0, -- 1 where that is no other identity, but a failure in a lab
    ended_wall_us       INTEGER,
    ended_boottime_us   INTEGER,
    ending_json         TEXT,
    UNIQUE (service_id, boot_id, pid, start_ticks) -- a process may live through one trial into the next
) STRICT;

CREATE TABLE tick (
    id           INTEGER PRIMARY KEY,
    trial_id     INTEGER NOT NULL REFERENCES trial (id),
    sequence     INTEGER NOT NULL,
    wall_us      INTEGER NOT NULL,
    boottime_us  INTEGER NOT NULL,
    cost_wall_us INTEGER NOT NULL,              -- what sampling cost the sampler
    cost_cpu_us  INTEGER NOT NULL,
    host_id      INTEGER REFERENCES host (id),  -- the boot that boottime_us is of; NULL is the trial's
    UNIQUE (trial_id, sequence)
) STRICT;

-- What a source of data does not tell is NULL; Heaptrial's own samples tell everything but the cgroup.
CREATE TABLE sample (
    life_id              INTEGER NOT NULL REFERENCES life (id),
    tick_id              INTEGER NOT NULL REFERENCES tick (id),
    rss_bytes            INTEGER NOT NULL,
    anon_bytes           INTEGER,
    file_bytes           INTEGER,
    shmem_bytes          INTEGER,
    swap_bytes           INTEGER,
    vsize_bytes          INTEGER,
    hwm_bytes            INTEGER,
    minor_faults         INTEGER,
    major_faults         INTEGER,
    cpu_us               INTEGER,
    threads              INTEGER,
    processes            INTEGER,
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
    arm_id     INTEGER REFERENCES arm (id),
    wall_us    INTEGER NOT NULL,
    kind       TEXT    NOT NULL,                -- a KnownEvent, or an operators' own word
    text       TEXT    NOT NULL,
    host       TEXT                             -- of a gathered trial: the host that told it
) STRICT;

CREATE INDEX event_of_trial ON event (trial_id);

-- Where imported data came from.
CREATE TABLE import_source (
    trial_id INTEGER NOT NULL REFERENCES trial (id),
    file     TEXT    NOT NULL,
    role     TEXT    NOT NULL,                  -- memory, groups, events, diagnostics
    sha256   TEXT    NOT NULL,
    rows     INTEGER NOT NULL,
    skipped  INTEGER NOT NULL                   -- malformed rows
) STRICT;

-- Analyses of a running trial at times fixed in advance.
CREATE TABLE look (
    trial_id      INTEGER NOT NULL REFERENCES trial (id),
    number        INTEGER NOT NULL,             -- counted from 1
    planned_us    INTEGER NOT NULL,             -- since the start of the trial
    taken_wall_us INTEGER NOT NULL,
    alpha         REAL    NOT NULL,             -- what this look may spend
    outcome_json  TEXT    NOT NULL,
    PRIMARY KEY (trial_id, number)
) STRICT, WITHOUT ROWID;

-- Of a sample that is the median of several: how many, and their maxima.
CREATE TABLE rollup (
    life_id                  INTEGER NOT NULL REFERENCES life (id),
    tick_id                  INTEGER NOT NULL REFERENCES tick (id),
    samples                  INTEGER NOT NULL,
    rss_max_bytes            INTEGER NOT NULL,
    anon_max_bytes           INTEGER,           -- of RssAnon
    anon_swap_max_bytes      INTEGER,           -- of the sum of RssAnon and VmSwap, the metric `anon`
    cgroup_current_max_bytes INTEGER,
    PRIMARY KEY (life_id, tick_id)
) STRICT, WITHOUT ROWID;

-- What was gathered of the hosts of a trial that runs on several.
CREATE TABLE part (
    trial_id         INTEGER NOT NULL REFERENCES trial (id),
    host             TEXT    NOT NULL,          -- as the plan names it
    facts_json       TEXT    NOT NULL,
    started_wall_us  INTEGER NOT NULL,
    ended_wall_us    INTEGER,                   -- NULL while it ran there
    sequence         INTEGER,                   -- the last tick that is here, by its number and time there
    tick_wall_us     INTEGER,
    gathered_wall_us INTEGER NOT NULL,
    PRIMARY KEY (trial_id, host)
) STRICT, WITHOUT ROWID;
