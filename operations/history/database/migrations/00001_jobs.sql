-- Times are seconds since 1970 UTC. NULL is what nobody knows; an unknown text is empty.
-- +goose Up
CREATE TABLE jobs (
    runner_uid           TEXT   NOT NULL PRIMARY KEY,
    cluster              TEXT   NOT NULL,
    namespace            TEXT   NOT NULL,
    set_name             TEXT   NOT NULL,
    runner               TEXT   NOT NULL,
    at                   BIGINT NOT NULL,
    repository           TEXT   NOT NULL,
    workflow             TEXT   NOT NULL,
    ref                  TEXT   NOT NULL,
    job_name             TEXT   NOT NULL,
    run_id               BIGINT,
    job_id               TEXT   NOT NULL,
    attempt              BIGINT,
    event                TEXT   NOT NULL,
    queued               BIGINT,
    assigned             BIGINT,
    created              BIGINT,
    registered           BIGINT,
    placed               BIGINT,
    image_pulled         BIGINT,
    container_up         BIGINT,
    started              BIGINT,
    finished             BIGINT,
    result               TEXT   NOT NULL,
    lost_cause           TEXT   NOT NULL,
    rerun                TEXT   NOT NULL,
    node                 TEXT   NOT NULL,
    node_type            TEXT   NOT NULL,
    cpu_request_millis   BIGINT,
    memory_request_bytes BIGINT,
    memory_limit_bytes   BIGINT,
    peak_memory_bytes    BIGINT,
    cpu_microseconds     BIGINT,
    cpu_periods          BIGINT,
    throttled_periods    BIGINT,
    oom_kills            BIGINT
);
CREATE INDEX jobs_at ON jobs (at, runner_uid);
CREATE INDEX jobs_set ON jobs (set_name, namespace, at, runner_uid);
CREATE INDEX jobs_repository ON jobs (repository, at, runner_uid);
CREATE INDEX jobs_workflow ON jobs (workflow, at, runner_uid);
CREATE INDEX jobs_run ON jobs (run_id);
CREATE INDEX jobs_job ON jobs (job_id);
CREATE INDEX jobs_finished ON jobs (finished);
CREATE INDEX jobs_running ON jobs (cluster, at) WHERE finished IS NULL;
CREATE INDEX jobs_lost ON jobs (at, runner_uid) WHERE lost_cause <> '';

CREATE TABLE gaps (
    cluster TEXT   NOT NULL,
    started BIGINT NOT NULL,
    ended   BIGINT NOT NULL,
    reason  TEXT   NOT NULL,
    PRIMARY KEY (cluster, started)
);

CREATE TABLE heartbeats (
    cluster TEXT   NOT NULL PRIMARY KEY,
    at      BIGINT NOT NULL
);

CREATE TABLE samples (
    cluster        TEXT   NOT NULL,
    namespace      TEXT   NOT NULL,
    set_name       TEXT   NOT NULL,
    at             BIGINT NOT NULL,
    running        BIGINT NOT NULL,
    idle           BIGINT NOT NULL,
    waiting        BIGINT NOT NULL,
    effective_max  BIGINT,
    limited_reason TEXT   NOT NULL,
    PRIMARY KEY (cluster, namespace, set_name, at)
);
CREATE INDEX samples_at ON samples (at);

CREATE TABLE usage_periods (
    span           BIGINT NOT NULL,
    started        BIGINT NOT NULL,
    cluster        TEXT   NOT NULL,
    namespace      TEXT   NOT NULL,
    set_name       TEXT   NOT NULL,
    repository     TEXT   NOT NULL,
    workflow       TEXT   NOT NULL,
    job_name       TEXT   NOT NULL,
    jobs           BIGINT NOT NULL,
    succeeded      BIGINT NOT NULL,
    failed         BIGINT NOT NULL,
    canceled       BIGINT NOT NULL,
    lost           BIGINT NOT NULL,
    measured       BIGINT NOT NULL,
    run_seconds    BIGINT NOT NULL,
    cpu_requested  BIGINT NOT NULL,
    memory_requested     BIGINT NOT NULL,
    cpu_used             BIGINT NOT NULL,
    waited               BIGINT NOT NULL,
    wait_assigned        BIGINT NOT NULL,
    wait_created         BIGINT NOT NULL,
    wait_registered      BIGINT NOT NULL,
    wait_placed          BIGINT NOT NULL,
    wait_image_pulled    BIGINT NOT NULL,
    wait_container_up    BIGINT NOT NULL,
    wait_started         BIGINT NOT NULL,
    cpu_request_millis   BIGINT NOT NULL,
    memory_request_bytes BIGINT NOT NULL,
    peak_memory          TEXT   NOT NULL,
    cpu_average          TEXT   NOT NULL,
    throttled            TEXT   NOT NULL,
    PRIMARY KEY (span, started, cluster, namespace, set_name, repository, workflow, job_name)
);

CREATE TABLE stale_periods (
    span    BIGINT NOT NULL,
    started BIGINT NOT NULL,
    PRIMARY KEY (span, started)
);
