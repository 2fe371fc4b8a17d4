-- How often jobs waited how long, for percentiles. The last week is added up again, so that it has them.
-- +goose Up
ALTER TABLE usage_periods ADD COLUMN wait_times TEXT NOT NULL DEFAULT '';

INSERT INTO stale_periods (span, started)
SELECT DISTINCT span, started FROM usage_periods
WHERE started >= (SELECT MAX(started) FROM usage_periods) - 604800
ON CONFLICT DO NOTHING;
