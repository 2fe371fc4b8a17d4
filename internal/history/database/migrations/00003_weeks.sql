-- Weeks, four weeks and days of whole sets are added up, too. They come from the days, which are added up again for that.
-- +goose Up
INSERT INTO stale_periods (span, started)
SELECT DISTINCT span, started FROM usage_periods WHERE span = 86400
ON CONFLICT DO NOTHING;
