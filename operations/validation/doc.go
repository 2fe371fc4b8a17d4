// Package validation checks values of the charts and AutoscalingRunnerSets before they are applied: it says what the
// charts, the API server and the manager would say of them.
//
//	files ─▶ documents ─▶ objects, and sources of values for our charts ─▶ checks ─▶ findings and notes
package validation
