// Package nodes tells which nodes there are, where they are, and which are about to go away, from what their objects say.
// Manager and cache take from it how nodes are watched, and the controller of runner sets what that means for a runner
// there, and for a volume that can be used there only.
package nodes
