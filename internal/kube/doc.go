// Package kube is what several controllers need from Kubernetes and controller-runtime does not give: applying an object
// only when it differs, bounded parallel work, expectations of objects not seen yet, conditions, names and labels.
//
// It knows the API types but nothing of GitHub, and decides nothing about runners.
package kube
