// Package informer makes informers survive outages of the API server and objects that can't be decoded.
//
// Persistent and Readable wrap the source of an informer, and MendAnswers the transport below it. RefuseUnreadable and
// ListReadable are for clients that read such objects. The package knows nothing about scale sets and runners.
package informer
