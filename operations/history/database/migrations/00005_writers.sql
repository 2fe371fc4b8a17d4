-- A row has its writer, which alone may end it while it lives, and how its end is known: an end that nobody saw has no
-- run time. Jobs that run are those of the ledger that ran before, whose last sign of life is the heartbeat. Where a
-- ledger has ended jobs of before a gap in its first minute, nobody saw their end: it becomes the begin of the gap.
-- +goose Up
ALTER TABLE jobs ADD COLUMN writer TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN ending TEXT NOT NULL DEFAULT '';

CREATE TABLE writers (
    writer  TEXT   NOT NULL PRIMARY KEY,
    cluster TEXT   NOT NULL,
    began   BIGINT NOT NULL,
    at      BIGINT NOT NULL,
    ended   BIGINT
);
INSERT INTO writers (writer, cluster, began, at) SELECT 'version 4 of ' || cluster, cluster, at, at FROM heartbeats;

UPDATE jobs SET writer = 'version 4 of ' || cluster WHERE finished IS NULL;
UPDATE jobs SET ending = 'RunnerGone' WHERE result = 'Unknown' AND finished IS NOT NULL;
UPDATE jobs SET ending = 'Unseen' WHERE ending = 'RunnerGone' AND EXISTS (
    SELECT 1 FROM gaps WHERE gaps.cluster = jobs.cluster AND gaps.reason = 'Stopped' AND gaps.started > jobs.at
    AND jobs.finished >= gaps.ended AND jobs.finished <= gaps.ended + 60);

INSERT INTO stale_periods (span, started, cluster, namespace, set_name)
SELECT DISTINCT 3600, finished - finished % 3600, cluster, namespace, set_name FROM jobs WHERE ending = 'Unseen'
ON CONFLICT DO NOTHING;
UPDATE jobs SET finished = (
    SELECT MAX(gaps.started) FROM gaps WHERE gaps.cluster = jobs.cluster AND gaps.reason = 'Stopped' AND gaps.started > jobs.at
    AND jobs.finished >= gaps.ended AND jobs.finished <= gaps.ended + 60)
WHERE ending = 'Unseen';
INSERT INTO stale_periods (span, started, cluster, namespace, set_name)
SELECT DISTINCT 3600, finished - finished % 3600, cluster, namespace, set_name FROM jobs WHERE ending = 'Unseen'
ON CONFLICT DO NOTHING;
