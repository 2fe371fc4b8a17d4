// Package kube is what several controllers need from Kubernetes and controller-runtime does not give: applying an object
// only when it differs, patches of finalizers and statuses, bounded parallel work, expectations of objects not seen yet,
// the work queue and what brings an object back to it, conditions, Events and their limit, names and labels.
//
// It knows the API types but nothing of GitHub, and decides nothing about runners.
package kube
