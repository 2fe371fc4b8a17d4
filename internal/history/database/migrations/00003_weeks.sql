-- Weeks and four weeks are added up, too: days of what is there mark the weeks, and these mark four of them.
-- +goose Up
INSERT INTO stale_periods (span, started)
SELECT DISTINCT 604800, started - started % 604800 FROM usage_periods WHERE span = 86400
ON CONFLICT DO NOTHING;
