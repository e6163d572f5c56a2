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
    target TEXT COLLATE "C",
    node TEXT COLLATE "C",
    occurrences BIGINT,
    PRIMARY KEY (place)
);
CREATE TABLE events_followers (
    name TEXT COLLATE "C" NOT NULL,
    body BYTEA NOT NULL,
    PRIMARY KEY (name)
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
CREATE TABLE job_file_systems (
    cluster TEXT COLLATE "C" NOT NULL,
    job TEXT COLLATE "C" NOT NULL,
    attempt BIGINT NOT NULL,
    file_system TEXT COLLATE "C" NOT NULL,
    source TEXT COLLATE "C" NOT NULL,
    read_bytes BIGINT,
    write_bytes BIGINT,
    opens BIGINT,
    creates BIGINT,
    operations BIGINT,
    lower_bound BIGINT NOT NULL,
    PRIMARY KEY (cluster, job, attempt, file_system)
);
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
CREATE TABLE job_targets (
    cluster TEXT COLLATE "C" NOT NULL,
    job TEXT COLLATE "C" NOT NULL,
    attempt BIGINT NOT NULL,
    file_system TEXT COLLATE "C" NOT NULL,
    target TEXT COLLATE "C" NOT NULL,
    net_read_bytes BIGINT,
    net_write_bytes BIGINT,
    net_lower_bound BIGINT NOT NULL,
    server_read_bytes BIGINT,
    server_write_bytes BIGINT,
    server_operations BIGINT,
    server_lower_bound BIGINT NOT NULL,
    PRIMARY KEY (cluster, job, attempt, file_system, target)
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
CREATE TABLE node_hours (
    file_system TEXT COLLATE "C" NOT NULL,
    began DOUBLE PRECISION NOT NULL,
    nid TEXT COLLATE "C" NOT NULL,
    node TEXT COLLATE "C" NOT NULL,
    read_bytes BIGINT NOT NULL,
    read_bytes_max BIGINT NOT NULL,
    write_bytes BIGINT NOT NULL,
    write_bytes_max BIGINT NOT NULL,
    operations BIGINT NOT NULL,
    operations_max BIGINT NOT NULL,
    lower_bound BIGINT NOT NULL,
    PRIMARY KEY (file_system, began, nid)
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
    nfs_read_bytes BIGINT,
    nfs_write_bytes BIGINT,
    disk_read_bytes BIGINT,
    disk_write_bytes BIGINT,
    gpfs_read_bytes BIGINT,
    gpfs_write_bytes BIGINT,
    cephfs_read_bytes BIGINT,
    cephfs_write_bytes BIGINT,
    PRIMARY KEY (cluster, job, attempt)
);
CREATE INDEX summaries_began ON summaries (began, "over");
CREATE INDEX summaries_long ON summaries (("over" - began)) WHERE over - began > 604800;
CREATE INDEX summaries_over ON summaries ("over", began);
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
    CASE WHEN started BETWEEN 0 AND 253402300799 THEN to_timestamp(floor(started)) AT TIME ZONE 'UTC' END AS started,
    CASE WHEN ended BETWEEN 0 AND 253402300799 THEN to_timestamp(floor(ended)) AT TIME ZONE 'UTC' END AS ended,
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
COMMENT ON VIEW site_jobs IS 'one row for each run of a job that has a record';
COMMENT ON COLUMN site_jobs.cluster IS 'the cluster of the batch system';
COMMENT ON COLUMN site_jobs.raw_job_id IS 'the id that prologs see';
COMMENT ON COLUMN site_jobs.restarts IS 'how often it was started again before this run';
COMMENT ON COLUMN site_jobs.job_id IS 'the job as its users write it, such as 4711, 100_3';
COMMENT ON COLUMN site_jobs.user_name IS 'the user of the job';
COMMENT ON COLUMN site_jobs.account IS 'the account or project';
COMMENT ON COLUMN site_jobs.partition IS 'the partition or queue';
COMMENT ON COLUMN site_jobs.job_name IS 'the name of the job';
COMMENT ON COLUMN site_jobs.state IS 'how it ended, in the words of Slurm';
COMMENT ON COLUMN site_jobs.exit_code IS 'exit status:signal of the batch script';
COMMENT ON COLUMN site_jobs.is_last_run IS 'the job was not started again after this run';
COMMENT ON COLUMN site_jobs.started IS 'start of the first node';
COMMENT ON COLUMN site_jobs.ended IS 'stop of the last node';
COMMENT ON COLUMN site_jobs.last_seen_s IS 'when it last ran as far as it was seen, in seconds since 1970; never NULL, and an index finds jobs by it';
COMMENT ON COLUMN site_jobs.elapsed_s IS 'seconds from started to ended';
COMMENT ON COLUMN site_jobs.nodes IS 'nodes of the job';
COMMENT ON COLUMN site_jobs.nodes_reported IS 'nodes whose report is in the numbers';
COMMENT ON COLUMN site_jobs.nodes_shared IS 'nodes on which other jobs ran at the same time';
COMMENT ON COLUMN site_jobs.file_systems IS 'file systems that it could see, with commas between';
COMMENT ON COLUMN site_jobs.source IS 'which side counted the amounts, nodes or servers; exports where only by_node_* is known';
COMMENT ON COLUMN site_jobs.read_bytes IS 'bytes read, as counted by source';
COMMENT ON COLUMN site_jobs.write_bytes IS 'bytes written, as counted by source';
COMMENT ON COLUMN site_jobs.opens IS 'files and directories opened';
COMMENT ON COLUMN site_jobs.creates IS 'files created';
COMMENT ON COLUMN site_jobs.operations IS 'calls other than read and write';
COMMENT ON COLUMN site_jobs.read_bytes_too_low IS 'read_bytes may be too low';
COMMENT ON COLUMN site_jobs.write_bytes_too_low IS 'write_bytes may be too low';
COMMENT ON COLUMN site_jobs.write_bytes_too_high IS 'write_bytes may be too high, after an eviction';
COMMENT ON COLUMN site_jobs.calls_too_low IS 'opens, creates and operations may be too low';
COMMENT ON COLUMN site_jobs.net_read_bytes IS 'bytes that came over the network, as the nodes counted them';
COMMENT ON COLUMN site_jobs.net_write_bytes IS 'bytes that went over the network, as the nodes counted them';
COMMENT ON COLUMN site_jobs.net_bytes_too_low IS 'the two before may be too low';
COMMENT ON COLUMN site_jobs.server_read_bytes IS 'bytes read, as the storage servers counted them under the id of the job';
COMMENT ON COLUMN site_jobs.server_write_bytes IS 'bytes written, as the storage servers counted them';
COMMENT ON COLUMN site_jobs.server_operations IS 'other operations that the storage servers counted';
COMMENT ON COLUMN site_jobs.server_too_low IS 'the three before may be too low';
COMMENT ON COLUMN site_jobs.by_node_read_bytes IS 'the least that its nodes read';
COMMENT ON COLUMN site_jobs.by_node_read_bytes_max IS 'the most that its nodes read';
COMMENT ON COLUMN site_jobs.by_node_write_bytes IS 'the least that its nodes wrote';
COMMENT ON COLUMN site_jobs.by_node_write_bytes_max IS 'the most that its nodes wrote';
COMMENT ON COLUMN site_jobs.events IS 'warnings and worse while it ran; NULL where nothing looked for them';
COMMENT ON COLUMN site_jobs.data_lost IS 'lost, or may be lost, by an event';
COMMENT ON COLUMN site_jobs.is_final IS 'false while the storage servers may still count more';
COMMENT ON COLUMN site_jobs.nfs_read_bytes IS 'bytes read, NFS, by programs';
COMMENT ON COLUMN site_jobs.nfs_read_bytes_too_low IS 'it may be too low';
COMMENT ON COLUMN site_jobs.nfs_read_bytes_too_high IS 'it may be too high';
COMMENT ON COLUMN site_jobs.nfs_write_bytes IS 'bytes written, NFS, by programs';
COMMENT ON COLUMN site_jobs.nfs_write_bytes_too_low IS 'it may be too low';
COMMENT ON COLUMN site_jobs.nfs_write_bytes_too_high IS 'it may be too high';
COMMENT ON COLUMN site_jobs.disk_read_bytes IS 'bytes read, local disks, at the disks';
COMMENT ON COLUMN site_jobs.disk_read_bytes_too_low IS 'it may be too low';
COMMENT ON COLUMN site_jobs.disk_read_bytes_too_high IS 'it may be too high';
COMMENT ON COLUMN site_jobs.disk_write_bytes IS 'bytes written, local disks, at the disks';
COMMENT ON COLUMN site_jobs.disk_write_bytes_too_low IS 'it may be too low';
COMMENT ON COLUMN site_jobs.disk_write_bytes_too_high IS 'it may be too high';
COMMENT ON COLUMN site_jobs.gpfs_read_bytes IS 'bytes read, GPFS, by programs';
COMMENT ON COLUMN site_jobs.gpfs_read_bytes_too_low IS 'it may be too low';
COMMENT ON COLUMN site_jobs.gpfs_read_bytes_too_high IS 'it may be too high';
COMMENT ON COLUMN site_jobs.gpfs_write_bytes IS 'bytes written, GPFS, by programs';
COMMENT ON COLUMN site_jobs.gpfs_write_bytes_too_low IS 'it may be too low';
COMMENT ON COLUMN site_jobs.gpfs_write_bytes_too_high IS 'it may be too high';
COMMENT ON COLUMN site_jobs.cephfs_read_bytes IS 'bytes read, CephFS, in requests';
COMMENT ON COLUMN site_jobs.cephfs_read_bytes_too_low IS 'it may be too low';
COMMENT ON COLUMN site_jobs.cephfs_read_bytes_too_high IS 'it may be too high';
COMMENT ON COLUMN site_jobs.cephfs_write_bytes IS 'bytes written, CephFS, in requests';
COMMENT ON COLUMN site_jobs.cephfs_write_bytes_too_low IS 'it may be too low';
COMMENT ON COLUMN site_jobs.cephfs_write_bytes_too_high IS 'it may be too high';
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
COMMENT ON VIEW site_job_file_systems IS 'one row for each file system of a run of a job';
COMMENT ON COLUMN site_job_file_systems.cluster IS 'the cluster of the batch system';
COMMENT ON COLUMN site_job_file_systems.raw_job_id IS 'the id that prologs see';
COMMENT ON COLUMN site_job_file_systems.restarts IS 'how often it was started again before this run';
COMMENT ON COLUMN site_job_file_systems.file_system IS 'the name of the file system';
COMMENT ON COLUMN site_job_file_systems.source IS 'as in site_jobs';
COMMENT ON COLUMN site_job_file_systems.read_bytes IS 'bytes read there, as counted by source';
COMMENT ON COLUMN site_job_file_systems.write_bytes IS 'bytes written there, as counted by source';
COMMENT ON COLUMN site_job_file_systems.opens IS 'files and directories opened';
COMMENT ON COLUMN site_job_file_systems.creates IS 'files created';
COMMENT ON COLUMN site_job_file_systems.operations IS 'calls other than read and write';
COMMENT ON COLUMN site_job_file_systems.read_bytes_too_low IS 'read_bytes may be too low';
COMMENT ON COLUMN site_job_file_systems.write_bytes_too_low IS 'write_bytes may be too low';
COMMENT ON COLUMN site_job_file_systems.write_bytes_too_high IS 'write_bytes may be too high, after an eviction';
COMMENT ON COLUMN site_job_file_systems.calls_too_low IS 'opens, creates and operations may be too low';
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
COMMENT ON VIEW site_job_targets IS 'one row for each target at which a run of a job has amounts';
COMMENT ON COLUMN site_job_targets.cluster IS 'the cluster of the batch system';
COMMENT ON COLUMN site_job_targets.raw_job_id IS 'the id that prologs see';
COMMENT ON COLUMN site_job_targets.restarts IS 'how often it was started again before this run';
COMMENT ON COLUMN site_job_targets.file_system IS 'the name of the file system';
COMMENT ON COLUMN site_job_targets.target IS 'the OST or MDT, such as OST0003';
COMMENT ON COLUMN site_job_targets.net_read_bytes IS 'bytes that came from it over the network, as the nodes counted them';
COMMENT ON COLUMN site_job_targets.net_write_bytes IS 'bytes that went to it, as the nodes counted them';
COMMENT ON COLUMN site_job_targets.net_bytes_too_low IS 'the two before may be too low';
COMMENT ON COLUMN site_job_targets.server_read_bytes IS 'bytes read, as the target counted them under the id of the job';
COMMENT ON COLUMN site_job_targets.server_write_bytes IS 'bytes written, as the target counted them';
COMMENT ON COLUMN site_job_targets.server_operations IS 'other operations that the target counted';
COMMENT ON COLUMN site_job_targets.server_too_low IS 'the three before may be too low';
CREATE VIEW site_job_nodes AS SELECT
    cluster AS cluster,
    job AS raw_job_id,
    attempt AS restarts,
    node AS node,
    count(*) AS reports
FROM reports GROUP BY cluster, job, attempt, node;
COMMENT ON VIEW site_job_nodes IS 'one row for each node that reported for a run of a job; reports are removed after [site] keep_reports_days';
COMMENT ON COLUMN site_job_nodes.cluster IS 'the cluster of the batch system';
COMMENT ON COLUMN site_job_nodes.raw_job_id IS 'the id that prologs see';
COMMENT ON COLUMN site_job_nodes.restarts IS 'how often it was started again before this run';
COMMENT ON COLUMN site_job_nodes.node IS 'the name of the node';
COMMENT ON COLUMN site_job_nodes.reports IS 'how many reports it sent';
CREATE VIEW site_node_hours AS SELECT
    CASE WHEN began BETWEEN 0 AND 253402300799 THEN to_timestamp(floor(began)) AT TIME ZONE 'UTC' END AS began,
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
COMMENT ON VIEW site_node_hours IS 'one row for each client, file system and hour with I/O, as the storage servers count clients (exports); it is made two hours after the hour''s end';
COMMENT ON COLUMN site_node_hours.began IS 'when the hour began';
COMMENT ON COLUMN site_node_hours.file_system IS 'the name of the file system';
COMMENT ON COLUMN site_node_hours.nid IS 'the client''s address in LNet, such as 10.0.0.11@o2ib';
COMMENT ON COLUMN site_node_hours.node IS 'the name of the node; if unknown, its NID';
COMMENT ON COLUMN site_node_hours.read_bytes IS 'the least that it read in this hour';
COMMENT ON COLUMN site_node_hours.read_bytes_max IS 'the most: also what it read in sweeps that began before the hour, or ended after it';
COMMENT ON COLUMN site_node_hours.write_bytes IS 'the least that it wrote';
COMMENT ON COLUMN site_node_hours.write_bytes_max IS 'the most that it wrote';
COMMENT ON COLUMN site_node_hours.operations IS 'the least number of other requests';
COMMENT ON COLUMN site_node_hours.operations_max IS 'the most of them';
COMMENT ON COLUMN site_node_hours.too_low IS 'something of this hour may be missing, in the least and in the most';
CREATE VIEW site_events AS SELECT
    CASE WHEN time BETWEEN 0 AND 253402300799 THEN to_timestamp(floor(time)) AT TIME ZONE 'UTC' END AS began,
    CASE WHEN ended BETWEEN 0 AND 253402300799 THEN to_timestamp(floor(ended)) AT TIME ZONE 'UTC' END AS last_seen,
    CASE severity WHEN 0 THEN 'info' WHEN 1 THEN 'warning' WHEN 2 THEN 'critical' WHEN 3 THEN 'fatal' END AS severity,
    kind AS kind,
    file_system AS file_system,
    target AS target,
    node AS node,
    occurrences AS occurrences
FROM events;
COMMENT ON VIEW site_events IS 'one row for each event';
COMMENT ON COLUMN site_events.began IS 'when it began';
COMMENT ON COLUMN site_events.last_seen IS 'the last moment that it is about';
COMMENT ON COLUMN site_events.severity IS 'info < warning < critical < fatal';
COMMENT ON COLUMN site_events.kind IS 'the kind, as in the reference of events';
COMMENT ON COLUMN site_events.file_system IS 'the file system; '''' for none, or several';
COMMENT ON COLUMN site_events.target IS 'the OST or MDT; '''' for none, or several; NULL for events that were stored before this column was added';
COMMENT ON COLUMN site_events.node IS 'the node or storage server that reported it; NULL likewise';
COMMENT ON COLUMN site_events.occurrences IS 'how often it happened, such as clients evicted; NULL likewise';
CREATE VIEW site_capacity AS SELECT
    target AS target,
    substr(target, 1, length(target) - 8) AS file_system,
    CASE WHEN time BETWEEN 0 AND 253402300799 THEN to_timestamp(floor(time)) AT TIME ZONE 'UTC' END AS measured,
    bytes_total AS bytes_total,
    bytes_free AS bytes_free,
    bytes_available AS bytes_available,
    bytes_total - bytes_free AS bytes_used,
    inodes_total AS inodes_total,
    inodes_free AS inodes_free
FROM capacities;
COMMENT ON VIEW site_capacity IS 'one row for each target and hour, of the last week';
COMMENT ON COLUMN site_capacity.target IS 'the OST or MDT, such as scratch-OST0003';
COMMENT ON COLUMN site_capacity.file_system IS 'the file system';
COMMENT ON COLUMN site_capacity.measured IS 'when it was read';
COMMENT ON COLUMN site_capacity.bytes_total IS 'size';
COMMENT ON COLUMN site_capacity.bytes_free IS 'free, also where only root may write';
COMMENT ON COLUMN site_capacity.bytes_available IS 'free for users';
COMMENT ON COLUMN site_capacity.bytes_used IS 'in use';
COMMENT ON COLUMN site_capacity.inodes_total IS 'files that fit';
COMMENT ON COLUMN site_capacity.inodes_free IS 'files that still fit';
