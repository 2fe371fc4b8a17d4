// Package kube has what several controllers need from Kubernetes and controller-runtime does not provide: applying an
// object only if it differs, patches of finalizers and statuses, bounded parallel work, owners, names and labels, what
// an error means. Its subpackages are about one thing each: informer about watches that outlast outages, kinds about
// the project's own, report about conditions and Events.
//
// It knows the API types but nothing about GitHub, and decides nothing about runners.
package kube
