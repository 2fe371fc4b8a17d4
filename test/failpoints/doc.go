// Package failpoints dies at every effect. A scenario is run once as it is, and each effect gets a name: every write to
// the API server and every call to GitHub, of manager and listener. Then it is run again for each of them and each end
// that an effect can have: the process dies before it, or after it, or its answer is lost, or it is refused once. The
// process starts again with empty memory, everything runs to rest, and what is left is judged by rules that ask no code
// of the product.
//
//	scenario ─▶ run without a fault: names ─▶ for each name and end: run, restart, rest ─▶ judge
//
// All of it happens in bubbles of fake time: manager, listener, node and GitHub are real, what they reach each other by
// is room apiserver. etcd calls such points failpoints.
package failpoints
