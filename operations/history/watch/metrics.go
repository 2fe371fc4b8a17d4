package watch

import "github.com/prometheus/client_golang/prometheus"

// Metrics are those of the recorder.
type Metrics struct {
	Jobs, Failures, Dropped prometheus.Counter
	TaskFailures            *prometheus.CounterVec
	Pending, Written        prometheus.Gauge
	// Of each budget: what a month may cost, what this one has, and of which share of its hours no price is known.
	BudgetPerMonth, BudgetSpent, BudgetUnknown *prometheus.GaugeVec
	// Changes are the numbers of jobs and scale sets that got worse, by how.
	Changes *prometheus.GaugeVec
}

// NewMetrics returns the metrics, registered.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	budget := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"namespace", "repository"})
	}
	m := &Metrics{
		BudgetPerMonth: budget("gha_history_budget_per_month",
			"What jobs of a namespace or a repository may cost in a month: history.budgets."),
		BudgetSpent: budget("gha_history_budget_spent",
			"What the jobs cost that have finished in this calendar month (UTC), as far as a price is known."),
		BudgetUnknown: budget("gha_history_budget_unknown_ratio",
			"The share of the hours of these jobs that no rule of history.prices prices, from 0 to 1."),
		Changes: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "gha_history_changes",
			Help: "Jobs and scale sets that got worse in the last seven whole days (UTC) by more than chance explains: Slower, FailsMore " +
				"or WaitsLonger. Up to six hours old.",
		}, []string{"what"}),
		Jobs: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gha_history_writes_total", Help: "Number of rows of jobs that were written to the ledger.",
		}),
		Failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gha_history_write_failures_total", Help: "Number of times that the ledger could not be written.",
		}),
		TaskFailures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gha_history_task_failures_total",
			Help: "Number of times that a task of the ledger has failed: write, sample, absent, add up, fold, expire, budget or changes.",
		}, []string{"task"}),
		Dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gha_history_dropped_total",
			Help: "Number of reports about jobs that were dropped because too many waited to be written.",
		}),
		Pending: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "gha_history_pending_jobs", Help: "Jobs that are not written to the ledger yet.",
		}),
		Written: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "gha_history_last_write_timestamp_seconds", Help: "When all that was known was last written to the ledger.",
		}),
	}
	registry.MustRegister(m.Jobs, m.Failures, m.TaskFailures, m.Dropped, m.Pending, m.Written,
		m.BudgetPerMonth, m.BudgetSpent, m.BudgetUnknown, m.Changes)
	for _, task := range tasks {
		m.TaskFailures.WithLabelValues(task) // so that it is there before the first failure
	}
	return m
}
