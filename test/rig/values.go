package rig

import "maps"

// controllerRelease is the name of the controller's release. It is part of the names of cluster-wide objects, so rigs
// on the same cluster can't run at the same time.
const controllerRelease = "harrier"

// ControllerAccount is the ServiceAccount that the chart creates for that release.
const ControllerAccount = controllerRelease + "-gha-rs-controller"

// UninstallCheckAccount is the ServiceAccount of the check that the chart runs before helm uninstall.
const UninstallCheckAccount = ControllerAccount + "-uninstall-check"

// controllerValues returns the values that differ from the chart's defaults: what this machine requires and what the
// options say.
func (r *Rig) controllerValues() Values {
	flags := Values{"logLevel": "debug", "healthProbeBindAddress": ":8081", "runnerMaxConcurrentReconciles": 2}
	if r.options.SingleNamespace {
		flags["watchSingleNamespace"] = r.RunnerNamespace
	}
	maps.Copy(flags, r.options.Flags)
	values := Values{
		"image": Values{"repository": imageRepository, "tag": r.options.Product.tag()},
		"flags": flags,
		"metrics": Values{
			"controllerManagerAddr": ":8080", "listenerAddr": ":8080", "listenerEndpoint": "/metrics",
		},
		// The cluster has the CRDs from its start: the garbage collector takes up to 30 s to notice kinds that come
		// later.
		"crds": Values{"install": false},
	}
	if r.options.ManagerReplicas > 0 {
		values["replicaCount"] = r.options.ManagerReplicas
	}
	if r.options.Ledger {
		values["history"] = r.ledgerValues()
	}
	maps.Copy(values, r.options.ControllerValues)
	r.allowGitHub(values)
	return values
}

// allowGitHub allows the fake's address, which is on loopback, unless the test names addresses itself. Charts of others'
// products don't know the value.
func (r *Rig) allowGitHub(values Values) {
	flags, ok := values["flags"].(Values)
	if product := r.options.Product; !ok || (product.Controller != controllerChart && product.Tag == "") {
		return
	}
	flags = maps.Clone(flags)
	if _, given := flags["allowedGitHubURLs"]; !given {
		flags["allowedGitHubURLs"] = append([]string{r.GitHubURL}, r.options.AllowedAddresses...)
	}
	values["flags"] = flags
}

func (r *Rig) scaleSetValues(name string, more Values) Values {
	values := Values{
		"githubConfigUrl":    r.GitHubURL + "/org",
		"githubConfigSecret": Values{"github_token": PAT},
		"runnerScaleSetName": name,
		"minRunners":         r.options.MinRunners,
		"maxRunners":         r.options.MaxRunners,
		// Named instead of discovered, because the Deployment of an earlier rig may still be there.
		"controllerServiceAccount": Values{"namespace": r.SystemNamespace, "name": ControllerAccount},
	}
	maps.Copy(values, r.options.ScaleSetValues)
	maps.Copy(values, more)
	return values
}

// ClaimTemplates is the value volumeClaimTemplates with a volume of each name. The runners need not mount them: their
// pods have the volumes all the same.
func ClaimTemplates(names ...string) []Values {
	var templates []Values
	for _, name := range names {
		templates = append(templates, Values{
			"metadata": Values{"name": name},
			"spec": Values{
				"accessModes": []string{"ReadWriteOnce"},
				"resources":   Values{"requests": Values{"storage": "1Gi"}},
			},
		})
	}
	return templates
}
