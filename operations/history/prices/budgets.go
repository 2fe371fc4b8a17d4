package prices

import (
	"fmt"
	"time"
)

// Budget is what the jobs of a repository, or of a namespace, may cost in a calendar month.
type Budget struct {
	// One of them is set.
	Repository string `json:"repository,omitempty"`
	Namespace  string `json:"namespace,omitempty"`
	// PerMonth is in the currency of the prices.
	PerMonth float64 `json:"perMonth"`
}

// ParseBudgets reads budgets as JSON or YAML.
func ParseBudgets(text string) ([]Budget, error) {
	var budgets []Budget
	if err := read("budgets", text, &budgets); err != nil {
		return nil, err
	}
	if len(budgets) > mostBudgets {
		return nil, &ParseError{"budgets", fmt.Sprintf("has %d budgets: it may have %d", len(budgets), mostBudgets)}
	}
	known := map[Budget]bool{}
	for i, budget := range budgets {
		path := fmt.Sprintf("budgets[%d]", i)
		of := Budget{Repository: budget.Repository, Namespace: budget.Namespace}
		switch {
		case (budget.Repository == "") == (budget.Namespace == ""):
			return nil, &ParseError{path, "must have either a repository or a namespace"}
		case len(budget.Repository) > longestText || len(budget.Namespace) > longestText:
			return nil, &ParseError{path, fmt.Sprintf("has a name of more than %d bytes", longestText)}
		case known[of]:
			return nil, &ParseError{path, fmt.Sprintf("is the second one for %s", shown(of.Repository+of.Namespace))}
		case budget.PerMonth == 0 || !isMoney(budget.PerMonth):
			return nil, &ParseError{path + ".perMonth", "must be more than 0 and no more than a million millions"}
		}
		known[of] = true
	}
	return budgets, nil
}

// Month returns the calendar month of a moment, in UTC: its begin, and its end, which belongs to the next one.
func Month(moment time.Time) (from, to time.Time) {
	year, month, _ := moment.UTC().Date()
	from = time.Date(year, month, 1, 0, 0, 0, 0, time.UTC)
	return from, from.AddDate(0, 1, 0)
}
