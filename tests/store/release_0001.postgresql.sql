CREATE TABLE agents (
    node TEXT COLLATE "C" NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (node)
);
CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL,
    PRIMARY KEY (version_num)
);
CREATE TABLE blocks (
    id BIGSERIAL NOT NULL,
    file_system TEXT COLLATE "C" NOT NULL,
    target TEXT COLLATE "C" NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX blocks_target ON blocks (file_system, target);
CREATE TABLE by_node (
    cluster TEXT COLLATE "C" NOT NULL,
    job TEXT COLLATE "C" NOT NULL,
    attempt BIGINT NOT NULL,
    made DOUBLE PRECISION NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (cluster, job, attempt)
);
CREATE INDEX by_node_made ON by_node (made);
CREATE TABLE capacities (
    target TEXT COLLATE "C" NOT NULL,
    hour BIGINT NOT NULL,
    time DOUBLE PRECISION NOT NULL,
    bytes_total BIGINT NOT NULL,
    bytes_free BIGINT NOT NULL,
    bytes_available BIGINT NOT NULL,
    inodes_total BIGINT NOT NULL,
    inodes_free BIGINT NOT NULL,
    PRIMARY KEY (target, hour)
);
CREATE TABLE client_blocks (
    id BIGSERIAL NOT NULL,
    node TEXT COLLATE "C" NOT NULL,
    file_system TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX client_blocks_source ON client_blocks (node, file_system, kind);
CREATE TABLE client_gains (
    id BIGSERIAL NOT NULL,
    file_system TEXT COLLATE "C" NOT NULL,
    since DOUBLE PRECISION NOT NULL,
    until DOUBLE PRECISION NOT NULL,
    made DOUBLE PRECISION NOT NULL,
    merged BIGINT NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX client_gains_made ON client_gains (merged, made);
CREATE INDEX client_gains_until ON client_gains (file_system, until, since);
CREATE TABLE client_losses (
    id BIGSERIAL NOT NULL,
    file_system TEXT COLLATE "C" NOT NULL,
    node TEXT COLLATE "C" NOT NULL,
    target TEXT COLLATE "C" NOT NULL,
    nid TEXT COLLATE "C" NOT NULL,
    why TEXT COLLATE "C" NOT NULL,
    since DOUBLE PRECISION NOT NULL,
    until DOUBLE PRECISION NOT NULL,
    made DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX client_losses_same ON client_losses (file_system, node, target, nid, why);
CREATE INDEX client_losses_until ON client_losses (file_system, until, since);
CREATE TABLE client_nids (
    file_system TEXT COLLATE "C" NOT NULL,
    number BIGINT NOT NULL,
    nid TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (file_system, number)
);
CREATE TABLE client_sources (
    node TEXT COLLATE "C" NOT NULL,
    file_system TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    state BYTEA NOT NULL,
    PRIMARY KEY (node, file_system, kind)
);
CREATE TABLE clock (
    one BIGINT NOT NULL,
    passed DOUBLE PRECISION NOT NULL,
    wall DOUBLE PRECISION NOT NULL,
    boot_id TEXT COLLATE "C" NOT NULL,
    up DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (one),
    CHECK (one = 1)
);
CREATE TABLE damaged (
    id BIGSERIAL NOT NULL,
    place TEXT COLLATE "C",
    row TEXT COLLATE "C",
    why TEXT COLLATE "C",
    body BYTEA,
    PRIMARY KEY (id)
);
CREATE TABLE damaged_reports (
    cluster TEXT COLLATE "C" NOT NULL,
    job TEXT COLLATE "C" NOT NULL,
    attempt BIGINT NOT NULL,
    node TEXT COLLATE "C" NOT NULL,
    seq TEXT COLLATE "C" NOT NULL,
    body BYTEA,
    why TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (cluster, job, attempt, node, seq)
);
CREATE TABLE events (
    place BIGINT NOT NULL,
    id BIGINT NOT NULL,
    made DOUBLE PRECISION NOT NULL,
    time DOUBLE PRECISION NOT NULL,
    ended DOUBLE PRECISION NOT NULL,
    severity BIGINT NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    file_system TEXT COLLATE "C" NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (place)
);
CREATE TABLE events_nids (
    nid TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (nid)
);
CREATE TABLE events_numbering (
    one BIGINT NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    dropped BIGINT NOT NULL,
    dropped_until DOUBLE PRECISION NOT NULL,
    last BIGINT NOT NULL,
    PRIMARY KEY (one),
    CHECK (one = 1)
);
CREATE TABLE events_tellers (
    node TEXT COLLATE "C" NOT NULL,
    reported_at DOUBLE PRECISION NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (node)
);
CREATE TABLE harvests (
    job TEXT COLLATE "C" NOT NULL,
    made DOUBLE PRECISION NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (job)
);
CREATE INDEX harvests_made ON harvests (made);
CREATE TABLE job_lines (
    job TEXT COLLATE "C" NOT NULL,
    file_system TEXT COLLATE "C" NOT NULL,
    fold BIGINT NOT NULL,
    made DOUBLE PRECISION NOT NULL,
    thinned BIGINT NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (job, file_system)
);
CREATE INDEX job_lines_made ON job_lines (thinned, made);
CREATE TABLE job_lists (
    one BIGINT NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (one),
    CHECK (one = 1)
);
CREATE TABLE job_runs (
    job TEXT COLLATE "C" NOT NULL,
    started DOUBLE PRECISION NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (job, started)
);
CREATE TABLE jobs (
    cluster TEXT COLLATE "C" NOT NULL,
    job TEXT COLLATE "C" NOT NULL,
    attempt BIGINT NOT NULL,
    shown_as TEXT COLLATE "C" DEFAULT '' NOT NULL,
    whole TEXT COLLATE "C" DEFAULT '' NOT NULL,
    "user" TEXT COLLATE "C" DEFAULT '' NOT NULL,
    about BYTEA NOT NULL,
    first DOUBLE PRECISION NOT NULL,
    due DOUBLE PRECISION,
    made DOUBLE PRECISION,
    closed BIGINT DEFAULT 0 NOT NULL,
    shown BIGINT DEFAULT 0 NOT NULL,
    record BYTEA,
    PRIMARY KEY (cluster, job, attempt)
);
CREATE INDEX jobs_closed ON jobs (first) WHERE closed = 1;
CREATE INDEX jobs_due ON jobs (due) WHERE due IS NOT NULL;
CREATE INDEX jobs_first ON jobs (first);
CREATE INDEX jobs_job ON jobs (job);
CREATE INDEX jobs_made ON jobs (made);
CREATE INDEX jobs_shown ON jobs (shown_as);
CREATE INDEX jobs_unclosed ON jobs (first) WHERE due IS NULL AND closed = 0;
CREATE INDEX jobs_user ON jobs ("user", made);
CREATE INDEX jobs_whole ON jobs (whole);
CREATE TABLE line_folds (
    one BIGINT NOT NULL,
    number BIGINT NOT NULL,
    last BIGINT NOT NULL,
    PRIMARY KEY (one),
    CHECK (one = 1)
);
CREATE TABLE line_parts (
    id BIGSERIAL NOT NULL,
    file_system TEXT COLLATE "C" NOT NULL,
    target TEXT COLLATE "C" NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (id)
);
CREATE TABLE lives (
    job TEXT COLLATE "C" NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (job)
);
CREATE TABLE reports (
    cluster TEXT COLLATE "C" NOT NULL,
    job TEXT COLLATE "C" NOT NULL,
    attempt BIGINT NOT NULL,
    node TEXT COLLATE "C" NOT NULL,
    seq TEXT COLLATE "C" NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (cluster, job, attempt, node, seq)
);
CREATE TABLE summaries (
    cluster TEXT COLLATE "C" NOT NULL,
    job TEXT COLLATE "C" NOT NULL,
    attempt BIGINT NOT NULL,
    shown_as TEXT COLLATE "C" NOT NULL,
    "user" TEXT COLLATE "C" NOT NULL,
    account TEXT COLLATE "C" NOT NULL,
    partition TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    outcome TEXT COLLATE "C" NOT NULL,
    exit_code TEXT COLLATE "C" NOT NULL,
    started DOUBLE PRECISION,
    ended DOUBLE PRECISION,
    elapsed_s DOUBLE PRECISION,
    nodes BIGINT,
    reported BIGINT NOT NULL,
    shared BIGINT NOT NULL,
    file_systems TEXT COLLATE "C" NOT NULL,
    source TEXT COLLATE "C" NOT NULL,
    read_bytes BIGINT,
    write_bytes BIGINT,
    opens BIGINT,
    creates BIGINT,
    operations BIGINT,
    lower_bound BIGINT NOT NULL,
    net_read_bytes BIGINT,
    net_write_bytes BIGINT,
    net_lower_bound BIGINT NOT NULL,
    server_read_bytes BIGINT,
    server_write_bytes BIGINT,
    server_operations BIGINT,
    server_lower_bound BIGINT NOT NULL,
    final BIGINT NOT NULL,
    began DOUBLE PRECISION NOT NULL,
    "over" DOUBLE PRECISION NOT NULL,
    by_node_read_bytes BIGINT,
    by_node_read_bytes_max BIGINT,
    by_node_write_bytes BIGINT,
    by_node_write_bytes_max BIGINT,
    by_node_operations BIGINT,
    by_node_operations_max BIGINT,
    by_node_why TEXT COLLATE "C" DEFAULT '' NOT NULL,
    events BIGINT,
    data_lost TEXT COLLATE "C" DEFAULT '' NOT NULL,
    PRIMARY KEY (cluster, job, attempt)
);
CREATE INDEX summaries_over ON summaries ("over");
CREATE INDEX summaries_user ON summaries ("user", "over");
CREATE TABLE target_lines (
    id BIGSERIAL NOT NULL,
    file_system TEXT COLLATE "C" NOT NULL,
    target TEXT COLLATE "C" NOT NULL,
    since DOUBLE PRECISION NOT NULL,
    until DOUBLE PRECISION NOT NULL,
    made DOUBLE PRECISION NOT NULL,
    thinned BIGINT NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (id)
);
CREATE INDEX target_lines_made ON target_lines (thinned, made);
CREATE INDEX target_lines_since ON target_lines (file_system, target, since, until);
CREATE TABLE targets (
    file_system TEXT COLLATE "C" NOT NULL,
    target TEXT COLLATE "C" NOT NULL,
    state BYTEA NOT NULL,
    PRIMARY KEY (file_system, target)
);
