// Package ledger reads and writes what an AutoscalingRunnerSet itself says of its scale sets on GitHub: the one that is registered, those at
// addresses that it has left, and that all of them are gone. It says which addresses are the same, and which of several sets holds a scale
// set. Nothing here makes a request; the controller reads and patches the sets, and asks GitHub.
package ledger
