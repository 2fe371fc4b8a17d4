// Package fakenode plays pods on an API server that has no scheduler and no kubelet: it binds them, runs what stands for
// their containers, reports their status and takes them away when they are deleted. What a container does is a Runner: a
// function in this process, which makes thousands of runner pods cheap, or a real program (Exec), which is how listener
// pods run. Faults of pods, containers and nodes are injected by its methods.
//
// A pod costs a goroutine or two and three requests (binding, Running, the outcome); nothing polls.
package fakenode
