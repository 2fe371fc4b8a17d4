-- Where GitHub has the log of a job; why a lost job was not run again, and the attempt that has it again. So far that stood
-- in the place of the job's own attempt.
-- +goose Up
ALTER TABLE jobs ADD COLUMN job_number BIGINT;
ALTER TABLE jobs ADD COLUMN rerun_reason TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN rerun_attempt BIGINT;
UPDATE jobs SET rerun_attempt = attempt, attempt = NULL WHERE rerun = 'Done';
