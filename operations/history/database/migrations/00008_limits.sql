-- The part of a job's wait during which its scale set was at a limit, with the limit's name and number; and in sums how
-- long jobs waited so, in all and by limit. Rows that are there don't know it: their wait stays in its phases. Sums also count
-- the jobs that were short of memory; the hours with such jobs are added up again.
-- +goose Up
ALTER TABLE jobs ADD COLUMN limited_reason TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN limit_number BIGINT;
ALTER TABLE jobs ADD COLUMN limited_assigned BIGINT;
ALTER TABLE jobs ADD COLUMN limited_created BIGINT;
ALTER TABLE jobs ADD COLUMN limited_placed BIGINT;
ALTER TABLE usage_periods ADD COLUMN wait_limited BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_periods ADD COLUMN short_of_memory BIGINT NOT NULL DEFAULT 0;
ALTER TABLE usage_periods ADD COLUMN limit_times TEXT NOT NULL DEFAULT '';

INSERT INTO stale_periods (span, started, cluster, namespace, set_name)
SELECT DISTINCT 3600, finished - finished % 3600, cluster, namespace, set_name FROM jobs
WHERE finished IS NOT NULL AND (COALESCE(oom_kills, 0) > 0 OR lost_cause IN ('OOMKilled', 'Evicted'))
ON CONFLICT DO NOTHING;
