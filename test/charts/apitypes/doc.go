// Package apitypes checks that every object in the golden renders of the charts, and every CustomResourceDefinition,
// has only fields that the API types of Kubernetes know. It imports nothing of the product, so that it compiles with
// the types of any Kubernetes: those of the newest version come from the project's go.mod, those of the oldest
// supported one from kubernetes-1.30.mod in this directory:
//
//	go test ./test/charts/apitypes
//	go test -modfile=test/charts/apitypes/kubernetes-1.30.mod ./test/charts/apitypes
//
// `make lint` runs the second.
package apitypes
