// Package kube has what several controllers need from Kubernetes and controller-runtime does not provide: applying an object
// only if it differs, patches of finalizers and statuses, bounded parallel work, expectations of objects not seen yet, the
// work queue and the Waker that requeues objects, conditions, Events and their limit, names and labels.
//
// It knows the API types but nothing about GitHub, and decides nothing about runners.
package kube
