// Package fakenode plays pods on an API server that has no scheduler and no kubelet, such as that of package testkube:
// it binds them, plays their containers, reports their status and removes them when they are deleted. What a container
// does is a Runner: a function in this process, which makes thousands of runner pods cheap, or a real program (Exec):
// so test/rig runs the manager and its listeners. Methods of Node inject faults into pods, containers and nodes.
//
// A pod costs one or two goroutines and three requests (binding, Running, the outcome); nothing polls.
package fakenode
