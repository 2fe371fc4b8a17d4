-- Labels of a job's node on which prices may depend, and what the job requested besides CPU and memory; and in sums what was
-- requested on which kind of machine. Rows that are there know the type of their node only, and their sums not even that:
-- hours are added up again as far as the jobs of their four weeks are all there, so that no sum loses what it has.
-- +goose Up
ALTER TABLE jobs ADD COLUMN node_labels TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN extended_resources TEXT NOT NULL DEFAULT '';
ALTER TABLE usage_periods ADD COLUMN machine_amounts TEXT NOT NULL DEFAULT '';

INSERT INTO stale_periods (span, started, cluster, namespace, set_name)
SELECT DISTINCT 3600, hours.started, hours.cluster, hours.namespace, hours.set_name
FROM usage_periods hours JOIN (
    SELECT weeks.started, weeks.cluster, weeks.namespace, weeks.set_name FROM usage_periods weeks
    WHERE weeks.span = 2419200
    GROUP BY weeks.started, weeks.cluster, weeks.namespace, weeks.set_name
    HAVING SUM(weeks.jobs) <= (
        SELECT COUNT(*) FROM jobs WHERE jobs.cluster = weeks.cluster AND jobs.namespace = weeks.namespace
        AND jobs.set_name = weeks.set_name AND jobs.finished >= weeks.started AND jobs.finished < weeks.started + 2419200)
) complete ON complete.cluster = hours.cluster AND complete.namespace = hours.namespace
    AND complete.set_name = hours.set_name AND hours.started >= complete.started AND hours.started < complete.started + 2419200
WHERE hours.span = 3600
ON CONFLICT DO NOTHING;
