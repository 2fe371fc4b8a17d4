-- A heartbeat also has since when the clock has gone on as clocks do: nothing is deleted by one that has jumped.
-- +goose Up
ALTER TABLE heartbeats ADD COLUMN steady BIGINT NOT NULL DEFAULT 0;
