// Package history checks what has happened on a cluster against the rules that hold at every moment, in hindsight and
// without asking the code that it judges:
//
//  1. There are never more runners alive than the maxRunners in force when they were created.
//  2. A runner's name has one registration on GitHub at a time.
//  3. The product deletes no pod between the start and the completion of its job.
//  4. A runner is created only if a slot is missing. There are as many slots as the listener asks for, or as its jobs
//     and minRunners need within maxRunners. The table of slots in docs/decisions/0007-a-slot-follows-the-job.md is
//     written down here a second time: from that page, not from the controller.
//  5. A manager changes nothing after another has taken its Lease.
//  6. One runner at a time that may still run names a claim of volumeClaimTemplates, and one pod at a time that has not
//     ended mounts it. A template never has more claims than volumeClaimPool.max. With keepAfter, no claim with which a
//     container has started is passed on to another runner unless a job was reported that keepAfter names, nor to
//     another pod of the same runner.
//
// It stands at the end of a run of test/chaos:
//
//	API server's audit log ─▶ FromAudit ─┐
//	lists after outages: List ───────────┼─▶ History ─▶ Check ─▶ what was broken, one line each
//	GitHub: registrations, jobs ─────────┘
//
// Whoever acts knows the cluster from watches, which are late. So a rule that depends on what the manager knew is
// judged in favour of the manager by everything that was true within History.late before it acted.
package history
