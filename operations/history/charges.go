package history

import (
	"errors"
	"flag"
	"fmt"

	"github.com/harrier-ci/harrier/operations/history/prices"
)

// charges returns what reads the flags about what jobs cost, and may cost. A plain price is a rule for all nodes.
func charges(flags *flag.FlagSet) func() (rules prices.Rules, budgets []prices.Budget, err error) {
	var plain prices.Rule
	flags.Float64Var(&plain.CPUHour, "price-cpu-hour", 0, "what a CPU costs for an hour on every node; 0: no costs are told")
	flags.Float64Var(&plain.GiBHour, "price-gib-hour", 0, "what a GiB of memory costs for an hour on every node")
	list := flags.String("prices", "", "instead of these, `rules` as JSON, of which the first prices a job that fits its node "+
		"and its extended resources: history.prices of the chart")
	ofMonths := flags.String("budgets", "", "`budgets` as JSON, of repositories or namespaces for a month: history.budgets of "+
		"the chart")
	return func() (rules prices.Rules, budgets []prices.Budget, err error) {
		isPlain := plain.CPUHour != 0 || plain.GiBHour != 0
		switch {
		case plain.CPUHour < 0 || plain.GiBHour < 0:
			return nil, nil, errors.New("--price-cpu-hour and --price-gib-hour must not be negative")
		case isPlain && *list != "":
			return nil, nil, errors.New("--prices is set, and so is --price-cpu-hour or --price-gib-hour: set one of them")
		case isPlain:
			rules = prices.Rules{plain}
		default:
			if rules, err = prices.Parse(*list); err != nil {
				return nil, nil, fmt.Errorf("--prices: %w", err)
			}
		}
		if budgets, err = prices.ParseBudgets(*ofMonths); err != nil {
			return nil, nil, fmt.Errorf("--budgets: %w", err)
		}
		if len(budgets) > 0 && len(rules) == 0 {
			return nil, nil, errors.New("--budgets needs --prices: without prices nothing is spent")
		}
		return rules, budgets, nil
	}
}
