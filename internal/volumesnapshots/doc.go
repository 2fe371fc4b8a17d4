// Package volumesnapshots decides which snapshot a runner's claims are copies of, in mode Snapshot: the newest good one.
// It is pure.
//
// A runner's claims, one for each template, share a suffix (package volumeclaims). After a job that is trusted, its
// runner's controller writes a Commit on them. When runner and pod are gone, a VolumeSnapshot of each is made under the
// claim's own name, so that a restart makes none twice; the VolumeSnapshots of one suffix are a version, which is used as
// one. The claims go when it is ready, or after claimTimeout.
//
// The controller of runner sets observes a World and carries the Decision out. Nothing is remembered: what happened is
// in the VolumeSnapshots and on the claims.
package volumesnapshots
