-- From version 1 to 2: imported data has lives without a process id, samples without every reading, and services
-- in several lists. Run with foreign_keys off, because tables that others refer to are made anew.

ALTER TABLE arm ADD COLUMN source TEXT;
ALTER TABLE arm ADD COLUMN earlier_list_of INTEGER REFERENCES arm (id);
ALTER TABLE service ADD COLUMN attributes_json TEXT;
ALTER TABLE event ADD COLUMN arm_id INTEGER REFERENCES arm (id);

CREATE TABLE membership (
    arm_id     INTEGER NOT NULL REFERENCES arm (id),
    service_id INTEGER NOT NULL REFERENCES service (id),
    PRIMARY KEY (arm_id, service_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE import_source (
    trial_id INTEGER NOT NULL REFERENCES trial (id),
    file     TEXT    NOT NULL,
    role     TEXT    NOT NULL,                  -- memory, groups, config, events, diagnostics
    sha256   TEXT    NOT NULL,
    rows     INTEGER NOT NULL,
    skipped  INTEGER NOT NULL                   -- malformed rows
) STRICT;

CREATE TABLE aggregate (
    trial_id    INTEGER NOT NULL REFERENCES trial (id),
    wall_us     INTEGER NOT NULL,
    server      TEXT    NOT NULL,
    count       INTEGER NOT NULL,
    total_bytes INTEGER NOT NULL,
    mean_bytes  INTEGER NOT NULL,
    min_bytes   INTEGER NOT NULL,
    max_bytes   INTEGER NOT NULL,
    PRIMARY KEY (trial_id, wall_us, server)
) STRICT, WITHOUT ROWID;

CREATE TABLE life_2 (
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
    UNIQUE (boot_id, pid, start_ticks)
) STRICT;
INSERT INTO life_2 (id, service_id, boot_id, pid, start_ticks, started_wall_us, started_boottime_us, identity_json, contamination, ended_wall_us, ended_boottime_us, ending_json, start_json)
    SELECT id, service_id, boot_id, pid, start_ticks, started_wall_us, started_boottime_us, identity_json, contamination, ended_wall_us, ended_boottime_us, ending_json, '"observed"' FROM life;
DROP TABLE life;
ALTER TABLE life_2 RENAME TO life;

CREATE TABLE sample_2 (
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
INSERT INTO sample_2 SELECT * FROM sample;
DROP TABLE sample;
ALTER TABLE sample_2 RENAME TO sample;
