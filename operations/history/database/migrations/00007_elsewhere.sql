-- What does a job's work besides the container that is measured, empty if nothing does; and how many jobs have such.
-- +goose Up
ALTER TABLE jobs ADD COLUMN elsewhere TEXT NOT NULL DEFAULT '';
ALTER TABLE usage_periods ADD COLUMN elsewhere BIGINT NOT NULL DEFAULT 0;
