-- From version 2 to 3: trials on a fleet, which outlive a boot and are looked at while they run. Run with foreign_keys
-- off, because a table that others refer to is made anew.

ALTER TABLE trial ADD COLUMN rolled_up_tick_id INTEGER;
ALTER TABLE tick ADD COLUMN host_id INTEGER REFERENCES host (id);
CREATE UNIQUE INDEX running_field_trial ON trial (name) WHERE kind = 'field' AND ended_wall_us IS NULL;
CREATE INDEX event_of_trial ON event (trial_id);

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

-- What the whole process of the agent took since the tick before.
CREATE TABLE agent (
    tick_id    INTEGER PRIMARY KEY REFERENCES tick (id),
    elapsed_us INTEGER NOT NULL,
    cpu_us     INTEGER NOT NULL,
    rss_bytes  INTEGER NOT NULL
) STRICT;

CREATE TABLE life_3 (
    id                  INTEGER PRIMARY KEY,
    service_id          INTEGER NOT NULL REFERENCES service (id),
    boot_id             TEXT,                   -- with pid and start_ticks the key; NULL in imported data
    pid                 INTEGER,
    start_ticks         INTEGER,
    start_json          TEXT    NOT NULL,       -- observed, inferred with its uncertainty, or unknown
    started_wall_us     INTEGER NOT NULL,
    started_boottime_us INTEGER NOT NULL,       -- of an import the same as started_wall_us, as is tick's
    identity_json       TEXT,
    contamination       TEXT,                   -- why the identity is not the treatment; NULL where it is
    ended_wall_us       INTEGER,
    ended_boottime_us   INTEGER,
    ending_json         TEXT,
    UNIQUE (service_id, boot_id, pid, start_ticks) -- a process may live through one trial into the next
) STRICT;
INSERT INTO life_3 (id, service_id, boot_id, pid, start_ticks, start_json, started_wall_us, started_boottime_us, identity_json, contamination, ended_wall_us, ended_boottime_us, ending_json)
    SELECT id, service_id, boot_id, pid, start_ticks, start_json, started_wall_us, started_boottime_us, identity_json, contamination, ended_wall_us, ended_boottime_us, ending_json FROM life;
DROP TABLE life;
ALTER TABLE life_3 RENAME TO life;
