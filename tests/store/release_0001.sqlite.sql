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
    PRIMARY KEY (place)
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
    PRIMARY KEY (cluster, job, attempt)
)
 WITHOUT ROWID;
CREATE INDEX summaries_over ON summaries (over);
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
