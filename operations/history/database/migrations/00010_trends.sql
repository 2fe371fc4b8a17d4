-- How jobs ended, and how often they ran and waited how long, by event and by branch: for trends. Rows with the property
-- "set" have all jobs of a scale set. The last 29 days are added up again, so that trends begin there.
-- +goose Up
CREATE TABLE trend_periods (
    span       BIGINT NOT NULL,
    started    BIGINT NOT NULL,
    cluster    TEXT   NOT NULL,
    namespace  TEXT   NOT NULL,
    set_name   TEXT   NOT NULL,
    property   TEXT   NOT NULL,
    position   BIGINT NOT NULL,
    repository TEXT   NOT NULL,
    workflow   TEXT   NOT NULL,
    job_name   TEXT   NOT NULL,
    value      TEXT   NOT NULL,
    jobs       BIGINT NOT NULL,
    succeeded  BIGINT NOT NULL,
    failed     BIGINT NOT NULL,
    canceled   BIGINT NOT NULL,
    lost       BIGINT NOT NULL,
    run_times  TEXT   NOT NULL,
    wait_times TEXT   NOT NULL,
    PRIMARY KEY (span, started, cluster, namespace, set_name, property, position)
);
CREATE INDEX trend_periods_repository ON trend_periods (property, span, started, repository);
CREATE INDEX trend_periods_jobs ON trend_periods (property, span, started, jobs);

INSERT INTO stale_periods (span, started, cluster, namespace, set_name)
SELECT DISTINCT 3600, started, cluster, namespace, set_name FROM usage_periods
WHERE span = 3600 AND started >= (SELECT MAX(started) FROM usage_periods WHERE span = 3600) - 2505600
ON CONFLICT DO NOTHING;
