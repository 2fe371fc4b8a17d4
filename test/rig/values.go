package rig

import "maps"

// controllerRelease is the name of the controller's release. Its cluster-wide objects bear it, so rigs of one cluster
// can't run at the same time.
const controllerRelease = "harrier"

// ControllerAccount is the ServiceAccount that the chart makes for that release.
const ControllerAccount = controllerRelease + "-gha-rs-controller"

// UninstallCheckAccount is that of the chart's check before helm uninstall.
const UninstallCheckAccount = ControllerAccount + "-uninstall-check"

// controllerValues are what the machine needs, on top of the chart's defaults.
func (r *Rig) controllerValues() Values {
	flags := Values{"logLevel": "debug", "healthProbeBindAddress": ":8081", "runnerMaxConcurrentReconciles": 2}
	if r.options.SingleNamespace {
		flags["watchSingleNamespace"] = r.RunnerNamespace
	}
	values := Values{
		"image": Values{"repository": "rig.invalid/manager", "tag": "test"},
		"flags": flags,
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
		"controllerServiceAccount": Values{"namespace": r.SystemNamespace, "name": ControllerAccount},
	}
	maps.Copy(values, r.options.ScaleSetValues)
	maps.Copy(values, more)
	return values
}
