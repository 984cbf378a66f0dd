"""The tables of a store, and how an older one is brought to them or read as it is."""

import re

SCHEMA = 5
_SNAPSHOTS = """
CREATE TABLE snapshots (
    run TEXT,
    share REAL,                    -- of the run's own length
    step INTEGER NOT NULL,         -- at which it was taken
    data BLOB NOT NULL,            -- safetensors: the embeddings `input` and, where the head has its own, `output`
    PRIMARY KEY (run, share)
);
"""
_NEWER = """
ALTER TABLE runs ADD COLUMN state_size INTEGER;
ALTER TABLE runs ADD COLUMN semantics INTEGER NOT NULL DEFAULT 1;
"""
_FAILED = """
CREATE TABLE failed (
    run TEXT PRIMARY KEY,          -- one that is not tried again unless that is asked for
    attempts INTEGER NOT NULL,     -- how many have failed
    error TEXT NOT NULL,           -- that of the last, in one line
    time TEXT NOT NULL             -- UTC
);
"""
_TRAINING = """
CREATE TABLE training (            -- runs that have begun and not ended
    run TEXT PRIMARY KEY,
    spec TEXT NOT NULL,            -- as in `runs`
    model TEXT NOT NULL,
    steps INTEGER NOT NULL         -- of the whole run
);
CREATE TABLE training_points (     -- their measurements so far; those of a run that ends go to `points`
    run TEXT,
    step INTEGER,
    accuracy REAL,
    time REAL NOT NULL,            -- seconds since 1970
    data TEXT NOT NULL,            -- as in `points`
    PRIMARY KEY (run, step)
) WITHOUT ROWID;
"""
_LABELS = """
ALTER TABLE study_runs ADD COLUMN label TEXT;
ALTER TABLE study_runs ADD COLUMN steps INTEGER;
"""
MIGRATIONS: dict[int, str] = {1: _SNAPSHOTS, 2: _NEWER, 3: _TRAINING + _LABELS, 4: _FAILED}
"""SQL that brings a store to the next schema, by the schema it starts from: done when the store is written to."""
READ_AS_NEXT: dict[int, str] = {
    1: "CREATE TEMP TABLE snapshots (run, share, step, data)",
    2: "CREATE TEMP VIEW runs AS SELECT rowid, *, NULL AS state_size, 1 AS semantics FROM main.runs",
    3: _TRAINING.replace("CREATE TABLE", "CREATE TEMP TABLE")
    + "CREATE TEMP VIEW study_runs AS SELECT rowid, *, NULL AS label, NULL AS steps FROM main.study_runs",
    4: "CREATE TEMP TABLE failed (run, attempts, error, time)",
}
"""SQL that makes a connection see a store as one of the next schema without writing to it, by the schema it has."""
TABLES = f"""{_SNAPSHOTS}{_TRAINING}{_FAILED}
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE studies (name TEXT PRIMARY KEY, source TEXT NOT NULL);                     -- the study file, as YAML
CREATE TABLE study_runs (
    study TEXT,
    place INTEGER,
    run TEXT,
    label TEXT,                    -- of its configuration, among the study's
    steps INTEGER,                 -- of the whole run
    PRIMARY KEY (study, place)
);
CREATE TABLE runs (
    id TEXT PRIMARY KEY,           -- hash of the specification
    spec TEXT NOT NULL,            -- JSON, every field
    model TEXT NOT NULL,           -- a short name of the model
    status TEXT NOT NULL,          -- finished, solved, diverged, hopeless
    step INTEGER NOT NULL,         -- at which the run ended
    accuracy REAL,                 -- headline, at the end, on all test rows
    best_accuracy REAL,            -- highest of any measurement ..
    best_step INTEGER,             -- .. and when it was first reached
    final TEXT NOT NULL,           -- JSON: every measure at the end, further tests included
    parameters INTEGER NOT NULL,
    seconds REAL NOT NULL,         -- its share of its cohort's time
    device TEXT NOT NULL,
    versions TEXT NOT NULL,        -- JSON
    notes TEXT NOT NULL,           -- JSON list
    ended TEXT NOT NULL,           -- UTC
    state_size INTEGER,            -- elements of recurrent state; null where it was not counted
    semantics INTEGER NOT NULL DEFAULT 1   -- version of what specifications mean: runs of different versions are never mixed
);
CREATE TABLE points (run TEXT, step INTEGER, data TEXT NOT NULL, PRIMARY KEY (run, step)) WITHOUT ROWID;
CREATE TABLE slices (run TEXT, step INTEGER, tag TEXT, data TEXT NOT NULL, PRIMARY KEY (run, step, tag)) WITHOUT ROWID;
CREATE TABLE failures (run TEXT, attempt INTEGER, error TEXT NOT NULL, traceback TEXT NOT NULL, time TEXT NOT NULL);
"""


def tables_of(schema: int) -> set[str]:
    """The tables that a store of a schema has: those of this version but for the ones that were added since."""
    created = re.compile(r"CREATE TABLE (\w+)")
    newer = [name for old, sql in MIGRATIONS.items() if old >= schema for name in created.findall(sql)]
    return set(created.findall(TABLES)) - set(newer)
