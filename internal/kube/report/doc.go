// Package report has what objects tell their users: conditions, Events and the limit on them, and the next step after a
// refusal by the API server. The controllers decide what to tell; the texts are theirs.
package report
