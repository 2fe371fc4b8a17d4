// Package informer makes informers that outlast outages of the API server and objects that cannot be decoded.
//
// Persistent and Readable wrap the source of an informer, MendAnswers the transport below it; RefuseUnreadable and
// ListReadable are for clients that read what such an informer holds. It knows nothing of scale sets and runners.
package informer
