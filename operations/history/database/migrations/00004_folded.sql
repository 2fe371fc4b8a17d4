-- Periods are added up for each scale set, which keeps the sums of a limited number of kinds of jobs; position orders
-- them by size. What was added up before has all of them, and no sums of whole sets but of days: unfolded_periods has
-- what is to be folded, which happens later, step by step. scale_sets are those that jobs are told apart by.
-- +goose Up
ALTER TABLE stale_periods RENAME TO former_stale_periods;

CREATE TABLE stale_periods (
    span      BIGINT NOT NULL,
    started   BIGINT NOT NULL,
    cluster   TEXT   NOT NULL,
    namespace TEXT   NOT NULL,
    set_name  TEXT   NOT NULL,
    PRIMARY KEY (span, started, cluster, namespace, set_name)
);
INSERT INTO stale_periods (span, started, cluster, namespace, set_name)
SELECT s.span, s.started, j.cluster, j.namespace, j.set_name
FROM former_stale_periods s JOIN jobs j ON j.finished >= s.started AND j.finished < s.started + 3600
WHERE s.span = 3600
UNION
SELECT s.span, s.started, p.cluster, p.namespace, p.set_name
FROM former_stale_periods s JOIN usage_periods p ON p.span = s.span AND p.started = s.started
UNION
SELECT s.span, s.started, p.cluster, p.namespace, p.set_name
FROM former_stale_periods s JOIN usage_periods p ON p.span = 3600 AND p.started >= s.started AND p.started < s.started + s.span
WHERE s.span > 3600;
DROP TABLE former_stale_periods;

CREATE TABLE unfolded_periods (
    span      BIGINT NOT NULL,
    started   BIGINT NOT NULL,
    cluster   TEXT   NOT NULL,
    namespace TEXT   NOT NULL,
    set_name  TEXT   NOT NULL,
    PRIMARY KEY (span, started, cluster, namespace, set_name)
);
INSERT INTO unfolded_periods (span, started, cluster, namespace, set_name)
SELECT DISTINCT span, started, cluster, namespace, set_name FROM usage_periods WHERE span > 0;

CREATE TABLE scale_sets (
    cluster   TEXT   NOT NULL,
    namespace TEXT   NOT NULL,
    set_name  TEXT   NOT NULL,
    at        BIGINT NOT NULL,
    PRIMARY KEY (cluster, namespace, set_name)
);
INSERT INTO scale_sets (cluster, namespace, set_name, at)
SELECT cluster, namespace, set_name, MAX(at) FROM jobs GROUP BY cluster, namespace, set_name;

ALTER TABLE usage_periods ADD COLUMN position BIGINT NOT NULL DEFAULT 0;
CREATE INDEX usage_periods_position ON usage_periods (span, started, position);

CREATE INDEX jobs_set_finished ON jobs (cluster, namespace, set_name, finished);
DROP INDEX jobs_finished;
