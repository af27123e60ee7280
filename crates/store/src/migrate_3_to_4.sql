-- From version 3 to 4: trials over several hosts, gathered in one database.

ALTER TABLE event ADD COLUMN host TEXT;

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
