// Package holders records who holds a scale set on GitHub: one Lease for each in the manager's namespace, where no
// tenant writes. It is made when GitHub has answered that the scale set is there, before anything is done with it, and
// the first who makes it holds the scale set.
//
// What a tenant chooses hinders nobody else: a record counts for those who reach GitHub by the same way
// (credentials.Way), because only there an answer proves anything, and for those in the holder's own namespace.
// Neither the age of an AutoscalingRunnerSet nor its annotations or status are asked.
package holders
