package main

// recipe lists the programs and files of an image. Programs are linked statically, so no image needs a base.
type recipe struct {
	name string
	// programs maps the path of a program in the image to its package below the project's root.
	programs   map[string]string
	entrypoint string
	// user is "uid:gid"; empty means root.
	user string
	// trustsAuthorities puts the certificates of public authorities into the image, for programs that connect to the
	// Internet.
	trustsAuthorities bool
	// version is that of a release; empty means the charts'.
	version string
}

const (
	runner  = "./test/runner"
	standIn = "./test/standin/docker"
	pause   = "./hack/cluster/pause"
)

// recipes are all images of the project, by name.
var recipes = byName(
	// What both charts use: manager, listener, and the program for operators, which runs as manager doctor, too.
	recipe{
		name: "product",
		programs: map[string]string{"/manager": "./cmd/manager", "/ghalistener": "./cmd/listener",
			"/harrier": "./operations/cmd/harrier"},
		entrypoint:        "/manager",
		user:              "65532:65532",
		trustsAuthorities: true,
	},
	// What a demonstration needs besides: a simulated GitHub and a runner that talks to it. The runner has the path of
	// the real one, so that the chart's default command starts it.
	recipe{
		name:       "demo",
		programs:   map[string]string{"/fakegithub": "./test/fakegithub", "/home/runner/run.sh": runner},
		entrypoint: "/home/runner/run.sh",
		user:       "1001:1001",
	},
	// For tests of container modes, what runners find there: the Docker daemon and its client, the container hook, and
	// the few files of the real runner image that the chart's pods use.
	recipe{
		name: "stand-in",
		programs: map[string]string{
			"/home/runner/run.sh": runner, "/home/runner/k8s/index.js": "./test/standin/hook",
			"/home/runner/k8s-novolume/index.js": "./test/standin/hook",
			// Any program will do: no job runs it, but the init container needs a file to copy.
			"/home/runner/externals/node": pause,
			"/usr/local/bin/docker":       standIn, "/usr/local/bin/cp": standIn,
		},
		entrypoint: "/usr/local/bin/docker",
	},
	// The first process of a pod in the cluster of hack/cluster.
	recipe{name: "pause", programs: map[string]string{"/pause": pause}, entrypoint: "/pause", user: "65535:65535"},
)

func byName(all ...recipe) map[string]recipe {
	found := make(map[string]recipe, len(all))
	for _, each := range all {
		found[each.name] = each
	}
	return found
}
