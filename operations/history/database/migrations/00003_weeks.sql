-- Runners are found by their name. Weeks, four weeks and days of whole sets are added up, too. They come from the days, which are added up again for that.
-- +goose Up
CREATE INDEX jobs_runner ON jobs (runner, at, runner_uid);

INSERT INTO stale_periods (span, started)
SELECT DISTINCT span, started FROM usage_periods WHERE span = 86400
ON CONFLICT DO NOTHING;
