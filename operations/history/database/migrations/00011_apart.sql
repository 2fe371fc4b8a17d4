-- The hour that goes on is apart from its day and all longer periods, so that these are added up once in an hour and not
-- each minute: a question reads it beside them. What is there has been added up.
-- +goose Up
ALTER TABLE usage_periods ADD COLUMN apart BIGINT NOT NULL DEFAULT 0;
ALTER TABLE trend_periods ADD COLUMN apart BIGINT NOT NULL DEFAULT 0;
CREATE INDEX usage_periods_apart ON usage_periods (span, started) WHERE apart = 1;
CREATE INDEX trend_periods_apart ON trend_periods (property, span, started) WHERE apart = 1;

-- The jobs of each workflow are added up together, too, of what is there by folding it again, step by step.
INSERT INTO unfolded_periods (span, started, cluster, namespace, set_name)
SELECT DISTINCT span, started, cluster, namespace, set_name FROM usage_periods WHERE span > 0
ON CONFLICT DO NOTHING;
