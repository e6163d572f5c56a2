CREATE TABLE agents (
    node TEXT NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (node)
)
 WITHOUT ROWID;
CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL,
    PRIMARY KEY (version_num)
);
CREATE TABLE blocks (
    id INTEGER NOT NULL,
    file_system TEXT NOT NULL,
    target TEXT NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX blocks_target ON blocks (file_system, target);
CREATE TABLE by_node (
    cluster TEXT NOT NULL,
    job TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    made DOUBLE NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (cluster, job, attempt)
);
CREATE INDEX by_node_made ON by_node (made);
CREATE TABLE capacities (
    target TEXT NOT NULL,
    hour INTEGER NOT NULL,
    time DOUBLE NOT NULL,
    bytes_total INTEGER NOT NULL,
    bytes_free INTEGER NOT NULL,
    bytes_available INTEGER NOT NULL,
    inodes_total INTEGER NOT NULL,
    inodes_free INTEGER NOT NULL,
    PRIMARY KEY (target, hour)
)
 WITHOUT ROWID;
CREATE TABLE client_blocks (
    id INTEGER NOT NULL,
    node TEXT NOT NULL,
    file_system TEXT NOT NULL,
    kind TEXT NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX client_blocks_source ON client_blocks (node, file_system, kind);
CREATE TABLE client_gains (
    id INTEGER NOT NULL,
    file_system TEXT NOT NULL,
    since DOUBLE NOT NULL,
    until DOUBLE NOT NULL,
    made DOUBLE NOT NULL,
    merged INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX client_gains_made ON client_gains (merged, made);
CREATE INDEX client_gains_until ON client_gains (file_system, until, since);
CREATE TABLE client_losses (
    id INTEGER NOT NULL,
    file_system TEXT NOT NULL,
    node TEXT NOT NULL,
    target TEXT NOT NULL,
    nid TEXT NOT NULL,
    why TEXT NOT NULL,
    since DOUBLE NOT NULL,
    until DOUBLE NOT NULL,
    made DOUBLE NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX client_losses_same ON client_losses (file_system, node, target, nid, why);
CREATE INDEX client_losses_until ON client_losses (file_system, until, since);
CREATE TABLE client_nids (
    file_system TEXT NOT NULL,
    number INTEGER NOT NULL,
    nid TEXT NOT NULL,
    PRIMARY KEY (file_system, number)
)
 WITHOUT ROWID;
CREATE TABLE client_sources (
    node TEXT NOT NULL,
    file_system TEXT NOT NULL,
    kind TEXT NOT NULL,
    state BLOB NOT NULL,
    PRIMARY KEY (node, file_system, kind)
);
CREATE TABLE clock (
    one INTEGER NOT NULL,
    passed DOUBLE NOT NULL,
    wall DOUBLE NOT NULL,
    boot_id TEXT NOT NULL,
    up DOUBLE NOT NULL,
    PRIMARY KEY (one),
    CHECK (one = 1)
);
CREATE TABLE damaged (
    id INTEGER NOT NULL,
    place TEXT,
    "row" TEXT,
    why TEXT,
    body BLOB,
    PRIMARY KEY (id)
);
CREATE TABLE damaged_reports (
    cluster TEXT NOT NULL,
    job TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    node TEXT NOT NULL,
    seq TEXT NOT NULL,
    body BLOB,
    why TEXT NOT NULL,
    PRIMARY KEY (cluster, job, attempt, node, seq)
);
CREATE TABLE events (
    place INTEGER NOT NULL,
    id INTEGER NOT NULL,
    made DOUBLE NOT NULL,
    time DOUBLE NOT NULL,
    ended DOUBLE NOT NULL,
    severity INTEGER NOT NULL,
    kind TEXT NOT NULL,
    file_system TEXT NOT NULL,
    body BLOB NOT NULL,
    target TEXT,
    node TEXT,
    occurrences INTEGER,
    PRIMARY KEY (place)
);
CREATE TABLE events_followers (
    name TEXT NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (name)
);
CREATE TABLE events_nids (
    nid TEXT NOT NULL,
    PRIMARY KEY (nid)
)
 WITHOUT ROWID;
CREATE TABLE events_numbering (
    one INTEGER NOT NULL,
    name TEXT NOT NULL,
    dropped INTEGER NOT NULL,
    dropped_until DOUBLE NOT NULL,
    last INTEGER NOT NULL,
    PRIMARY KEY (one),
    CHECK (one = 1)
);
CREATE TABLE events_tellers (
    node TEXT NOT NULL,
    reported_at DOUBLE NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (node)
);
CREATE TABLE harvests (
    job TEXT NOT NULL,
    made DOUBLE NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (job)
);
CREATE INDEX harvests_made ON harvests (made);
CREATE TABLE job_file_systems (
    cluster TEXT NOT NULL,
    job TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    file_system TEXT NOT NULL,
    source TEXT NOT NULL,
    read_bytes INTEGER,
    write_bytes INTEGER,
    opens INTEGER,
    creates INTEGER,
    operations INTEGER,
    lower_bound INTEGER NOT NULL,
    PRIMARY KEY (cluster, job, attempt, file_system)
)
 WITHOUT ROWID;
CREATE TABLE job_lines (
    job TEXT NOT NULL,
    file_system TEXT NOT NULL,
    fold INTEGER NOT NULL,
    made DOUBLE NOT NULL,
    thinned INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (job, file_system)
);
CREATE INDEX job_lines_made ON job_lines (thinned, made);
CREATE TABLE job_lists (
    one INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (one),
    CHECK (one = 1)
);
CREATE TABLE job_runs (
    job TEXT NOT NULL,
    started DOUBLE NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (job, started)
);
CREATE TABLE job_targets (
    cluster TEXT NOT NULL,
    job TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    file_system TEXT NOT NULL,
    target TEXT NOT NULL,
    net_read_bytes INTEGER,
    net_write_bytes INTEGER,
    net_lower_bound INTEGER NOT NULL,
    server_read_bytes INTEGER,
    server_write_bytes INTEGER,
    server_operations INTEGER,
    server_lower_bound INTEGER NOT NULL,
    PRIMARY KEY (cluster, job, attempt, file_system, target)
)
 WITHOUT ROWID;
CREATE TABLE jobs (
    cluster TEXT NOT NULL,
    job TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    shown_as TEXT DEFAULT '' NOT NULL,
    whole TEXT DEFAULT '' NOT NULL,
    user TEXT DEFAULT '' NOT NULL,
    about BLOB NOT NULL,
    first DOUBLE NOT NULL,
    due DOUBLE,
    made DOUBLE,
    closed INTEGER DEFAULT 0 NOT NULL,
    shown INTEGER DEFAULT 0 NOT NULL,
    record BLOB,
    PRIMARY KEY (cluster, job, attempt)
)
 WITHOUT ROWID;
CREATE INDEX jobs_closed ON jobs (first) WHERE closed = 1;
CREATE INDEX jobs_due ON jobs (due) WHERE due IS NOT NULL;
CREATE INDEX jobs_first ON jobs (first);
CREATE INDEX jobs_job ON jobs (job);
CREATE INDEX jobs_made ON jobs (made);
CREATE INDEX jobs_shown ON jobs (shown_as);
CREATE INDEX jobs_unclosed ON jobs (first) WHERE due IS NULL AND closed = 0;
CREATE INDEX jobs_user ON jobs (user, made);
CREATE INDEX jobs_whole ON jobs (whole);
CREATE TABLE line_folds (
    one INTEGER NOT NULL,
    number INTEGER NOT NULL,
    last INTEGER NOT NULL,
    PRIMARY KEY (one),
    CHECK (one = 1)
);
CREATE TABLE line_parts (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    file_system TEXT NOT NULL,
    target TEXT NOT NULL,
    body BLOB NOT NULL
);
CREATE TABLE lives (
    job TEXT NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (job)
)
 WITHOUT ROWID;
CREATE TABLE node_hours (
    file_system TEXT NOT NULL,
    began DOUBLE NOT NULL,
    nid TEXT NOT NULL,
    node TEXT NOT NULL,
    read_bytes INTEGER NOT NULL,
    read_bytes_max INTEGER NOT NULL,
    write_bytes INTEGER NOT NULL,
    write_bytes_max INTEGER NOT NULL,
    operations INTEGER NOT NULL,
    operations_max INTEGER NOT NULL,
    lower_bound INTEGER NOT NULL,
    PRIMARY KEY (file_system, began, nid)
)
 WITHOUT ROWID;
CREATE TABLE reports (
    cluster TEXT NOT NULL,
    job TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    node TEXT NOT NULL,
    seq TEXT NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (cluster, job, attempt, node, seq)
)
 WITHOUT ROWID;
CREATE TABLE summaries (
    cluster TEXT NOT NULL,
    job TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    shown_as TEXT NOT NULL,
    user TEXT NOT NULL,
    account TEXT NOT NULL,
    partition TEXT NOT NULL,
    name TEXT NOT NULL,
    outcome TEXT NOT NULL,
    exit_code TEXT NOT NULL,
    started DOUBLE,
    ended DOUBLE,
    elapsed_s DOUBLE,
    nodes INTEGER,
    reported INTEGER NOT NULL,
    shared INTEGER NOT NULL,
    file_systems TEXT NOT NULL,
    source TEXT NOT NULL,
    read_bytes INTEGER,
    write_bytes INTEGER,
    opens INTEGER,
    creates INTEGER,
    operations INTEGER,
    lower_bound INTEGER NOT NULL,
    net_read_bytes INTEGER,
    net_write_bytes INTEGER,
    net_lower_bound INTEGER NOT NULL,
    server_read_bytes INTEGER,
    server_write_bytes INTEGER,
    server_operations INTEGER,
    server_lower_bound INTEGER NOT NULL,
    final INTEGER NOT NULL,
    began DOUBLE NOT NULL,
    over DOUBLE NOT NULL,
    by_node_read_bytes INTEGER,
    by_node_read_bytes_max INTEGER,
    by_node_write_bytes INTEGER,
    by_node_write_bytes_max INTEGER,
    by_node_operations INTEGER,
    by_node_operations_max INTEGER,
    by_node_why TEXT DEFAULT '' NOT NULL,
    events INTEGER,
    data_lost TEXT DEFAULT '' NOT NULL,
    nfs_read_bytes INTEGER,
    nfs_write_bytes INTEGER,
    disk_read_bytes INTEGER,
    disk_write_bytes INTEGER,
    gpfs_read_bytes INTEGER,
    gpfs_write_bytes INTEGER,
    cephfs_read_bytes INTEGER,
    cephfs_write_bytes INTEGER,
    PRIMARY KEY (cluster, job, attempt)
)
 WITHOUT ROWID;
CREATE INDEX summaries_began ON summaries (began, over);
CREATE INDEX summaries_long ON summaries (over - began) WHERE over - began > 604800;
CREATE INDEX summaries_over ON summaries (over, began);
CREATE INDEX summaries_user ON summaries (user, over);
CREATE TABLE target_lines (
    id INTEGER NOT NULL,
    file_system TEXT NOT NULL,
    target TEXT NOT NULL,
    since DOUBLE NOT NULL,
    until DOUBLE NOT NULL,
    made DOUBLE NOT NULL,
    thinned INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX target_lines_made ON target_lines (thinned, made);
CREATE INDEX target_lines_since ON target_lines (file_system, target, since, until);
CREATE TABLE targets (
    file_system TEXT NOT NULL,
    target TEXT NOT NULL,
    state BLOB NOT NULL,
    PRIMARY KEY (file_system, target)
);
CREATE VIEW site_jobs AS SELECT
    cluster AS cluster,
    job AS raw_job_id,
    attempt AS restarts,
    shown_as AS job_id,
    "user" AS user_name,
    account AS account,
    partition AS partition,
    name AS job_name,
    outcome AS state,
    exit_code AS exit_code,
    NOT EXISTS (SELECT 1 FROM summaries AS later WHERE later.cluster = run.cluster AND later.job = run.job AND later.attempt > run.attempt) AS is_last_run,
    CASE WHEN started BETWEEN 0 AND 253402300799 THEN datetime(started, 'unixepoch') END AS started,
    CASE WHEN ended BETWEEN 0 AND 253402300799 THEN datetime(ended, 'unixepoch') END AS ended,
    over AS last_seen_s,
    elapsed_s AS elapsed_s,
    nodes AS nodes,
    reported AS nodes_reported,
    shared AS nodes_shared,
    file_systems AS file_systems,
    source AS source,
    read_bytes AS read_bytes,
    write_bytes AS write_bytes,
    opens AS opens,
    creates AS creates,
    operations AS operations,
    (lower_bound & 3) != 0 AS read_bytes_too_low,
    (lower_bound & 5) != 0 AS write_bytes_too_low,
    (lower_bound & 8) != 0 AS write_bytes_too_high,
    (lower_bound & 1) != 0 AS calls_too_low,
    net_read_bytes AS net_read_bytes,
    net_write_bytes AS net_write_bytes,
    net_lower_bound != 0 AS net_bytes_too_low,
    server_read_bytes AS server_read_bytes,
    server_write_bytes AS server_write_bytes,
    server_operations AS server_operations,
    server_lower_bound != 0 AS server_too_low,
    by_node_read_bytes AS by_node_read_bytes,
    by_node_read_bytes_max AS by_node_read_bytes_max,
    by_node_write_bytes AS by_node_write_bytes,
    by_node_write_bytes_max AS by_node_write_bytes_max,
    events AS events,
    data_lost AS data_lost,
    final != 0 AS is_final,
    nfs_read_bytes AS nfs_read_bytes,
    (lower_bound & 16) != 0 AS nfs_read_bytes_too_low,
    (lower_bound & 256) != 0 AS nfs_read_bytes_too_high,
    nfs_write_bytes AS nfs_write_bytes,
    (lower_bound & 32) != 0 AS nfs_write_bytes_too_low,
    (lower_bound & 512) != 0 AS nfs_write_bytes_too_high,
    disk_read_bytes AS disk_read_bytes,
    (lower_bound & 64) != 0 AS disk_read_bytes_too_low,
    (lower_bound & 1024) != 0 AS disk_read_bytes_too_high,
    disk_write_bytes AS disk_write_bytes,
    (lower_bound & 128) != 0 AS disk_write_bytes_too_low,
    (lower_bound & 2048) != 0 AS disk_write_bytes_too_high,
    gpfs_read_bytes AS gpfs_read_bytes,
    (lower_bound & 4096) != 0 AS gpfs_read_bytes_too_low,
    (lower_bound & 16384) != 0 AS gpfs_read_bytes_too_high,
    gpfs_write_bytes AS gpfs_write_bytes,
    (lower_bound & 8192) != 0 AS gpfs_write_bytes_too_low,
    (lower_bound & 32768) != 0 AS gpfs_write_bytes_too_high,
    cephfs_read_bytes AS cephfs_read_bytes,
    (lower_bound & 65536) != 0 AS cephfs_read_bytes_too_low,
    (lower_bound & 262144) != 0 AS cephfs_read_bytes_too_high,
    cephfs_write_bytes AS cephfs_write_bytes,
    (lower_bound & 131072) != 0 AS cephfs_write_bytes_too_low,
    (lower_bound & 524288) != 0 AS cephfs_write_bytes_too_high
FROM summaries AS run;
CREATE VIEW site_job_file_systems AS SELECT
    cluster AS cluster,
    job AS raw_job_id,
    attempt AS restarts,
    file_system AS file_system,
    source AS source,
    read_bytes AS read_bytes,
    write_bytes AS write_bytes,
    opens AS opens,
    creates AS creates,
    operations AS operations,
    (lower_bound & 3) != 0 AS read_bytes_too_low,
    (lower_bound & 5) != 0 AS write_bytes_too_low,
    (lower_bound & 8) != 0 AS write_bytes_too_high,
    (lower_bound & 1) != 0 AS calls_too_low
FROM job_file_systems;
CREATE VIEW site_job_targets AS SELECT
    cluster AS cluster,
    job AS raw_job_id,
    attempt AS restarts,
    file_system AS file_system,
    target AS target,
    net_read_bytes AS net_read_bytes,
    net_write_bytes AS net_write_bytes,
    net_lower_bound != 0 AS net_bytes_too_low,
    server_read_bytes AS server_read_bytes,
    server_write_bytes AS server_write_bytes,
    server_operations AS server_operations,
    server_lower_bound != 0 AS server_too_low
FROM job_targets;
CREATE VIEW site_job_nodes AS SELECT
    cluster AS cluster,
    job AS raw_job_id,
    attempt AS restarts,
    node AS node,
    count(*) AS reports
FROM reports GROUP BY cluster, job, attempt, node;
CREATE VIEW site_node_hours AS SELECT
    CASE WHEN began BETWEEN 0 AND 253402300799 THEN datetime(began, 'unixepoch') END AS began,
    file_system AS file_system,
    nid AS nid,
    node AS node,
    read_bytes AS read_bytes,
    read_bytes_max AS read_bytes_max,
    write_bytes AS write_bytes,
    write_bytes_max AS write_bytes_max,
    operations AS operations,
    operations_max AS operations_max,
    lower_bound != 0 AS too_low
FROM node_hours;
CREATE VIEW site_events AS SELECT
    CASE WHEN time BETWEEN 0 AND 253402300799 THEN datetime(time, 'unixepoch') END AS began,
    CASE WHEN ended BETWEEN 0 AND 253402300799 THEN datetime(ended, 'unixepoch') END AS last_seen,
    CASE severity WHEN 0 THEN 'info' WHEN 1 THEN 'warning' WHEN 2 THEN 'critical' WHEN 3 THEN 'fatal' END AS severity,
    kind AS kind,
    file_system AS file_system,
    target AS target,
    node AS node,
    occurrences AS occurrences
FROM events;
CREATE VIEW site_capacity AS SELECT
    target AS target,
    substr(target, 1, length(target) - 8) AS file_system,
    CASE WHEN time BETWEEN 0 AND 253402300799 THEN datetime(time, 'unixepoch') END AS measured,
    bytes_total AS bytes_total,
    bytes_free AS bytes_free,
    bytes_available AS bytes_available,
    bytes_total - bytes_free AS bytes_used,
    inodes_total AS inodes_total,
    inodes_free AS inodes_free
FROM capacities;
