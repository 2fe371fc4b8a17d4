// Package fleet measures an installation of many scale sets: `make fleet SETS=200 RUNNERS=5000`. It runs on package
// rig, with the shipped programs and a process for each listener, and goes through a day of a platform team:
//
//	install ─▶ rest ─▶ all runners busy ─▶ rest ─▶ the manager is killed ─▶ the controller is upgraded ─▶ all jobs end
//
// It logs the duration of each step, and the resources and requests of manager and listeners meanwhile. Counts and
// ratios that hold on every machine are checked, times are not. `make test` has a small fleet; docs/measuring.md has
// figures of a large one.
package fleet
