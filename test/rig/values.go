package rig

import "maps"

// controllerRelease is the name of the controller's release. Its cluster-wide objects bear it, so rigs of one cluster
// can't run at the same time.
const controllerRelease = "harrier"

// controllerAccount is the ServiceAccount that the chart makes for that release.
const controllerAccount = controllerRelease + "-gha-rs-controller"

// controllerValues are what the machine needs, on top of the chart's defaults.
func (r *Rig) controllerValues() Values {
	values := Values{
		"image": Values{"repository": "rig.invalid/manager", "tag": "test"},
		"flags": Values{"logLevel": "debug", "healthProbeBindAddress": ":8081", "runnerMaxConcurrentReconciles": 2},
		"metrics": Values{
			"controllerManagerAddr": ":8080", "listenerAddr": ":8080", "listenerEndpoint": "/metrics",
		},
		// The cluster has them: its garbage collector learns of kinds that come later only after 30 s.
		"crds": Values{"install": false},
	}
	if r.options.ManagerReplicas > 0 {
		values["replicaCount"] = r.options.ManagerReplicas
	}
	maps.Copy(values, r.options.ControllerValues)
	return values
}

func (r *Rig) scaleSetValues(name string, more Values) Values {
	values := Values{
		"githubConfigUrl":    r.GitHubURL + "/org",
		"githubConfigSecret": Values{"github_token": PAT},
		"runnerScaleSetName": name,
		"minRunners":         r.options.MinRunners,
		"maxRunners":         r.options.MaxRunners,
		// Not discovered: the Deployment of an earlier rig may still be going away.
		"controllerServiceAccount": Values{"namespace": r.SystemNamespace, "name": controllerAccount},
	}
	maps.Copy(values, r.options.ScaleSetValues)
	maps.Copy(values, more)
	return values
}
