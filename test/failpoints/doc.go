// Package failpoints dies at every effect. A scenario is run once as it is, and each effect gets a name: every write to
// the API server, every call to GitHub or a vault, and every statement of the ledger's database. Then it is run again for
// each of them and each end that an effect can have: the process dies before it, or after it, or its answer is lost, or
// it is refused once. The process starts again with empty memory, everything runs to rest, and what is left is judged by
// rules that ask no code of the product.
//
//	scenario ─▶ run without a fault: names ─▶ for each name and end: run, restart, rest ─▶ judge
//
// Besides, it plays trouble at the edges without a fault: an API server, a GitHub or a node that is slow, silent or lies.
//
// All of it happens in bubbles of fake time: manager, listener, ledger, node and GitHub are real, what they reach each
// other by is room apiserver. etcd calls such points failpoints.
package failpoints
