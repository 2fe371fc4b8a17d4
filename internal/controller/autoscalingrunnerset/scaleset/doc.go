// Package scaleset makes the requests to GitHub about the scale set of one AutoscalingRunnerSet: it finds or creates
// the scale set and brings it to what the spec wants, looks for one that was never recorded, and deletes those that are
// no longer used.
//
// The calls Ensure, Search and DeleteAll run in the pool, one at a time for each set; the controller decides when, from
// their results. What an error of theirs means to a user is decided here, too.
package scaleset
