// Package apitypes checks that every object in the golden renders of the charts, and every CustomResourceDefinition,
// has only fields that the API types of Kubernetes know. It imports nothing of the product, so that it compiles with
// the types of any Kubernetes: those of the newest version come from test/go.mod, those of the oldest
// supported one from kubernetes-1.30.mod in this directory:
//
//	go test ./test/charts/apitypes
//	GOWORK=off go -C test test -modfile=charts/apitypes/kubernetes-1.30.mod ./charts/apitypes
//
// `make lint` runs the second.
package apitypes
